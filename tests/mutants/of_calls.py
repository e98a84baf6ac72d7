"""Bugs in what tutorials put around their remote calls: what comes twice, who is silent, rounds of all trainers."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_ONCE, _OF_ONCE = "reference/rpc/once.py", "tests/test_once.py"

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
)
