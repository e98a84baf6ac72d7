"""Bugs in what a user is told of a program's calls and moments: `list --script`, and why a fault did not fire."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_OF_HINTS, _OF_MOMENTS = "tests/judge/test_hints.py", "tests/faults/test_moments_seen.py"
_HINTS = "faults/judge/hints.py"

MUTANTS = (
    Mutant(
        "hint-of-any-site",
        _HINTS,
        "n=1, cutoff=0.7)",
        "n=1, cutoff=0.0)",
        (f"{_OF_HINTS}::test_a_name_that_nothing_resembles_has_no_nearest",),
        "whoever names a function that is never called is told another one that has nothing to do with it",
    ),
    Mutant(
        "hint-of-the-method-elsewhere",
        _HINTS,
        "iter([*same, *ends,",
        "iter([*ends, *same,",
        (f"{_OF_HINTS}::test_a_name_that_nothing_resembles_has_no_nearest",),
        "of two functions the one with the other name is suggested",
    ),
    Mutant(
        "hint-of-torchs-own-calls",
        _HINTS,
        "own = [each for each in self._sites if not each.startswith(INTERNAL)]",
        "own = [each for each in self._sites if each]",
        (f"{_OF_HINTS}::test_calls_that_torch_makes_itself_are_not_listed",),
        "a user is sent to functions of torch, which no sweep hurts",
    ),
    Mutant(
        "steps-of-all-roles",
        "faults/ledger/moments_seen.py",
        'timeline.of("step") if event.role == role}',
        'timeline.of("step") if event.role}',
        (f"{_OF_MOMENTS}::test_steps_are_counted_once_and_processes_without_rpc_are_no_roles",),
        "a plan hurts a role at a step that only another role has",
    ),
    Mutant(
        "steps-heard-for-ever",
        "faults/inject/announcer.py",
        "            logging.Logger.callHandlers = original",
        "            pass",
        ("tests/faults/test_announcer.py::test_hearing_steps_leaves_the_programs_logging_alone",),
        "after a plan has left a process, each of its log records still goes through this package",
    ),
)
