"""Run ``run NAME`` of ``python -m faults``: a tutorial once, under a plan or healthy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faults.cli.options import DEADLINE, DIR, EXPECT, HEALTHY, LEAKS, PLAN, plan_of
from faults.cli.reports import REPORTS, check_reports, report, stored, write_run
from faults.cli.tutorial_options import tutorial_of
from faults.plan.plan import Plan
from faults.run.runs import Subject, run


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit status."""
    about = (
        "Run a tutorial once, under a plan or healthy, and judge the run. "
        "For a program of your own: `run --help --script`."
    )
    own = (PLAN, HEALTHY, DIR, DEADLINE, LEAKS, EXPECT, *REPORTS)
    subject, options = tutorial_of("run", about, arguments, *own)
    check_reports(options)
    return run_of(subject, plan_of(options), options)


def run_of(subject: Subject, plan: Plan, options: Any) -> int:
    """Run any subject, and return the exit status. ``options``: `dir`, `deadline`, `REPORTS`; None if not given."""
    with stored(options.dir) as (place, passed):
        how = {"trace": options.leaks == "trace", "expected": options.expect_error}
        found, judgement = run(subject, plan, place, **how, deadline=options.deadline, recorded=True)
        passed.append(judgement.passed)
        write_run(options, found, judgement, place)
        return report(found, judgement)
