"""Bugs in what tutorials put around their remote calls: what comes twice, who is silent, rounds of all trainers."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_ONCE, _OF_ONCE = "reference/rpc/once.py", "tests/test_once.py"
_LIVENESS, _OF_LIVENESS = "reference/rpc/liveness.py", "tests/test_liveness.py"

MUTANTS = (
    Mutant(
        "counted-twice",
        _ONCE,
        "            new = number > self._last",
        "            new = number >= self._last",
        (f"{_OF_ONCE}::test_a_call_counts_only_when_it_comes_first",),
        "a call that arrives twice counts twice",
    ),
    Mutant(
        "run-twice",
        _ONCE,
        "            if number not in self._results:",
        "            if number >= self._last:",
        (f"{_OF_ONCE}::test_a_repeated_call_gets_the_first_result_and_runs_nothing",),
        "a call that arrives twice is executed twice",
    ),
    Mutant(
        "repeat-of-long-ago-runs",
        _ONCE,
        "            if number < self._last:",
        "            if number < 0:",
        (f"{_OF_ONCE}::test_a_call_that_comes_again_after_a_later_one_is_refused",),
        "a call that arrives again after a later one is executed in that one's state",
    ),
    Mutant(
        "failure-is-no-result",
        _LIVENESS,
        "                self.failures[name] = error",
        "                self.results[name] = cause_of(error)",
        (f"{_OF_LIVENESS}::TestGather::test_tells_of_the_first_failure_and_raises_it",),
        "a participant's error is taken for its result",
        hangs=True,
    ),
    Mutant(
        "failure-is-silence",
        _LIVENESS,
        "                self.failures[name] = error",
        "                self.running[name] = None",
        ("tests/test_promises.py::test_a_loss_ends_everybody_soon[observer]",),
        "who has failed is waited for until it was silent for too long",
    ),
    Mutant(
        "all-are-named",
        _LIVENESS,
        "        return [name for name in late if name not in waiting]",
        "        return [*running]",
        (f"{_OF_LIVENESS}::test_who_waits_for_others_is_not_silent",),
        "who is silent is named together with who is not",
    ),
    Mutant(
        "others-are-not-told",
        _LIVENESS,
        "            on_failure(failure.reason)",
        "            del on_failure",
        (f"{_OF_LIVENESS}::TestGather::test_tells_of_the_first_failure_and_raises_it",),
        "a participant has failed, and the others go on waiting for it",
    ),
    Mutant(
        "nobody-waits-for-the-last-answers",
        _LIVENESS,
        "        late = self._stay(stay, failure.silent)",
        "        late = self._stay(0, failure.silent)",
        (f"{_OF_LIVENESS}::TestGather::test_stays_until_the_others_have_heard_and_names_all_who_failed",),
        "a server that fails is gone before its answers are",
    ),
    Mutant(
        "stays-for-the-silent",
        _LIVENESS,
        "        while self.running.keys() - silent and",
        "        while self.running and",
        (f"{_OF_LIVENESS}::TestGather::test_does_not_stay_for_those_who_are_silent",),
        "a failure is raised late, because answers of the silent are waited for",
    ),
    Mutant(
        "place-for-cause",
        "reference/rpc/error_text.py",
        'if "On WorkerInfo(" not in line',
        'if "WorkerInfo(On" not in line',
        ("tests/test_error_text.py::test_the_cause_is_the_first_line_that_says_what_happened",),
        "an error that came over RPC says on which role it was raised, and not what it was",
    ),
)
