"""Read the options of ``shrink``."""

from __future__ import annotations

from typing import Any

from faults.cli.options import DIR, EXPECT, LEAKS, PLAN, Option, read_plan, seconds
from faults.cli.report_files import REPORTS
from faults.plan.errors import shown
from faults.plan.plan import Plan, PlanError
from reference.cli.options import BadInput

OF_SHRINKS: tuple[Option, ...] = (
    PLAN,
    ("--budget", {"type": seconds, "metavar": "X", "help": "seconds after which no run begins (default: no limit)"}),
    DIR,
    LEAKS,
    EXPECT,
    *REPORTS,
)


def failing_plan(options: Any) -> Plan:
    """Read ``--plan``.

    Raises:
        BadInput: it is not given.
        PlanError: it cannot be read, or has no faults.
    """
    if options.plan is None:
        raise BadInput("shrink what? wanted --plan PLAN, a plan under which the program fails")
    plan = read_plan(options.plan)
    if not plan.faults:
        raise PlanError(f"--plan {shown(options.plan)} has no faults: wanted a plan under which the program fails")
    return plan
