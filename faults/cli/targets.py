"""Run a target again and again: a tutorial, or a program of the user's own."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from faults.cli.options import BOUND, DEADLINE_OF_SWEEP, OF_RESULTS, Option, results_of
from faults.judge.bound import MARGIN, lasting
from faults.judge.rules import Judgement
from faults.ledger.record import Run
from faults.plan.plan import Plan
from faults.run.runs import Subject, bound_of, run
from faults.run.sweep import Runner, SweepFailed, healthy
from faults.script.results import Results
from faults.script.script import run_script


def repeated(
    subject: Subject,
    healthy: Run,
    *,
    deadline: float | None = None,
    trace: bool = False,
    expected: Sequence[str] = (),
) -> Runner:
    """Return what runs the subject under a plan. ``deadline``: seconds until a role that still runs is killed; by
    default three times the healthy run's, the bound, and what the plan lasts; ``expected``: as for `run`."""
    due = 3 * healthy.seconds + bound_of(subject) + MARGIN

    def under(plan: Plan, place: Path) -> tuple[Run, Judgement]:
        until = due + lasting(plan) if deadline is None else deadline
        return run(subject, plan, place, deadline=until, trace=trace, expected=expected)

    return under


# Each run may take this many times as long as the healthy run, and at least so many seconds.
TIMES, SECONDS = 10.0, 60.0

OF_CHECKED_SCRIPTS: tuple[Option, ...] = (*OF_RESULTS, DEADLINE_OF_SWEEP, BOUND)


def checked(
    command: Sequence[str],
    options: Any,
    place: Path,
    first: Callable[[Runner, str, Path], Run],
    *,
    trace: bool = False,
) -> tuple[Run, Runner]:
    """Run the program without faults, and return that run, and what runs the program under a plan.

    ``options``: those of `OF_CHECKED_SCRIPTS`; ``place``: the folder for the runs without faults; ``first``: `record`
    or `healthy` of `faults.run.sweep`; ``trace``: trace RRefs and autograd contexts.

    Raises:
        SweepFailed: it fails without faults, or its results differ from run to run.
    """
    results = results_of(options)
    run = partial(run_script, command, deadline=options.deadline, bound=options.bound, trace=trace)
    found = _healthy(run, shlex.join(command), place, results, first)
    run = partial(run, expected=options.expect_error)
    patience = max(SECONDS, TIMES * found.seconds)
    _tell(found, results, patience if options.deadline is None else options.deadline)
    return found, partial(run, patience=patience, results=results.of(place / "healthy"))


def with_healthy(run: Any, name: str, place: Path, results: Results) -> Results | None:
    """Run the program without faults in ``place / "healthy"``, so that results can be compared with it, and so that a
    check is tried before it convicts. Return what is checked from then on; None if nothing is.

    Raises:
        SweepFailed: it fails, or the check does.
    """
    if not results.wanted:
        return None
    healthy(partial(run, results=results), name, place / "healthy")
    return results.of(place / "healthy")


def _healthy(run: Any, name: str, place: Path, results: Results, first: Callable[[Runner, str, Path], Run]) -> Run:
    """Run the program without faults; twice if its results are compared, because they have to be the same then.

    Raises:
        SweepFailed: it fails, calls nothing, or its results differ from run to run.
    """
    found = first(partial(run, results=results), name, place / "healthy")
    if results.compares:
        again, judgement = run(Plan(), place / "healthy-again", results=results.of(place / "healthy"))
        if judgement.verdict != "equal":
            why = again.difference if again.trace == "wrong" else judgement.verdict
            raise SweepFailed(f"two healthy runs of {name} differ: {why} (--ignore leaves out what changes)")
    return found


def _tell(healthy: Run, results: Results, deadline: float) -> None:
    said = f"the healthy run took {healthy.seconds:.1f} s; a run is overdue after {deadline:.0f} s"
    print(f"{said}, or later if its own timeouts are longer", file=sys.stderr)
    if not results.wanted:
        wanted = "--check, --same-output or --same-file"
        print(f"no result is checked, so a run that ends with status 0 is unchecked: wanted {wanted}", file=sys.stderr)
