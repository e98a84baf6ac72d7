"""Run a tutorial under one plan after the other, each until a deadline that a healthy run tells."""

from __future__ import annotations

from pathlib import Path

from faults.ledger.record import Run
from faults.plan.plan import Plan
from faults.run.runs import bound_of, run
from faults.run.subject import Subject
from faults.run.sweep import Runner
from faults.verdict.checks import Judgement
from faults.verdict.time_bounds import MARGIN, lasting


def repeated(subject: Subject, healthy: Run, *, deadline: float | None = None, trace: bool = False) -> Runner:
    """Return what runs the subject under a plan. ``deadline``: seconds until a role that still runs is killed; by
    default three times the healthy run's, the bound, and what the plan lasts."""
    due = 3 * healthy.seconds + bound_of(subject) + MARGIN

    def under(plan: Plan, place: Path) -> tuple[Run, Judgement]:
        return run(subject, plan, place, deadline=due + lasting(plan) if deadline is None else deadline, trace=trace)

    return under
