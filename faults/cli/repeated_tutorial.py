"""Run a tutorial under one plan after the other, each until a deadline that a healthy run tells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from faults.judge.bound import MARGIN, lasting
from faults.judge.rules import Judgement
from faults.ledger.record import Run
from faults.plan.plan import Plan
from faults.run.runs import bound_of, run
from faults.run.subject import Subject
from faults.run.sweep import Runner


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
