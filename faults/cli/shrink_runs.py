"""Make a failing plan smaller by runs of a program, and report the smallest plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from faults.cli.report_files import write_run
from faults.cli.shrink_report import report, tell
from faults.judge.rules import exit_status
from faults.ledger import record
from faults.ledger.run_files import remove_numbered
from faults.plan.plan import Plan
from faults.run.shrink import Shrinker, Trial
from faults.run.sweep import Runner
from reference.cli.options import BadInput


def shrink_plan(run: Runner, name: str, plan: Plan, place: Path, options: Any, passed: list[bool | None]) -> int:
    """Shrink the plan, print what is found, and return the exit status: 1, because the program fails; 3 if it is
    unknown whether it does.

    ``passed``: gets whether the smallest plan's run passed, also if the shrink is interrupted.

    Raises:
        BadInput: the program does not fail under the plan.
    """
    remove_numbered(place)
    shrinker = Shrinker(run, plan, place, budget=options.budget, tell=tell)
    first = shrinker.start()
    passed.append(first.judgement.passed)
    if shrinker.smallest is None:
        return _not_failing(first, plan)
    try:
        shrinker.shrink()
        shrinker.confirm()
    finally:  # even if the shrink is interrupted
        report(name, shrinker)
        write_run(options, record.read(shrinker.smallest.folder), shrinker.smallest.judgement, shrinker.smallest.folder)
    return exit_status(False)


def _not_failing(first: Trial, plan: Plan) -> int:
    verdict, checks = first.judgement.verdict, first.judgement.checks
    why = "; ".join(check.text for check in checks if check.holds is not True)
    if first.judgement.passed is None:
        print(f"unknown whether the program fails under the plan, so there is nothing to shrink: {why}")
        return exit_status(None)
    if verdict != "not fired" and first.judgement.passed is False:
        raise BadInput(f"the program fails before any fault of {plan} hits it: {verdict}: {why}")
    seen = f"{verdict}: {why}" if why else verdict
    wanted = "hung, leaked, wrong or needless failure"
    raise BadInput(f"the program does not fail under {plan}: wanted {wanted}, got {seen}")
