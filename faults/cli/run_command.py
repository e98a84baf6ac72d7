"""Run ``run`` of ``python -m faults``: a target once, under a plan or healthy."""

from __future__ import annotations

from collections.abc import Sequence

from faults.cli.options import (
    BOUND,
    DEADLINE,
    DEADLINE_OF_COMMAND,
    DIR,
    EXPECT,
    HEALTHY,
    LEAKS,
    OF_RESULTS,
    PLAN,
    RESTARTS,
    plan_of,
)
from faults.cli.reports import REPORTS, check_reports, report, stored, write_run
from faults.cli.targets import target_of

_ABOUT = "Run {} once, under a plan or healthy, and judge the run."
_OPTIONS = (
    (PLAN, HEALTHY, DIR, DEADLINE, LEAKS, EXPECT, RESTARTS, *REPORTS),
    (PLAN, HEALTHY, DIR, DEADLINE_OF_COMMAND, BOUND, LEAKS, EXPECT, *OF_RESULTS, *REPORTS),
)


def main(arguments: Sequence[str], program: list[str] | None) -> int:
    """Run the command for a tutorial, or for the program of these words, and return its exit status."""
    target, options = target_of("run", _ABOUT, arguments, program, _OPTIONS)
    plan = plan_of(options)
    check_reports(options)
    target.check(plan)
    with stored(options.dir) as (place, passed):
        found, judgement = target.once(plan, place)
        passed.append(judgement.passed)
        status = report(found, judgement, place)
        write_run(options, found, judgement, place)  # after the verdict, which a full disk does not hide
        return status
