"""Run ``shrink NAME`` of ``python -m faults``: make a plan smaller under which a tutorial fails."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from faults.cli.options import DEADLINE
from faults.cli.reports import check_reports, stored
from faults.cli.shrink_runs import OF_SHRINKS, failing_plan, shrink_plan
from faults.cli.targets import repeated
from faults.cli.tutorial_options import tutorial_of
from faults.ledger.run_files import reserved
from faults.plan.plan import Plan
from faults.run.runs import Subject, check_roles, run
from faults.run.sweep import healthy


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit status."""
    about = (
        "Run a tutorial under a plan that makes it fail, then under smaller plans, as long as it fails in the same "
        "way, and print the smallest one. For a program of your own: `shrink --help --script`."
    )
    subject, options = tutorial_of("shrink", about, arguments, *OF_SHRINKS, DEADLINE)
    plan = failing_plan(options)
    check_reports(options)
    return shrink_of(subject, plan, options)


def shrink_of(subject: Subject, plan: Plan, options: Any) -> int:
    """Shrink the plan for any subject, and return the exit status. ``options``: those of `OF_SHRINKS`, `deadline`."""
    check_roles(plan, list(subject.roles))
    trace = options.leaks == "trace"
    with stored(options.dir) as (place, passed), reserved(place):
        found = healthy(partial(run, subject, recorded=True, trace=trace), subject.name, place / "healthy")
        each = repeated(subject, found, deadline=options.deadline, trace=trace, expected=options.expect_error)
        return shrink_plan(each, subject.name, plan, place, options, passed)
