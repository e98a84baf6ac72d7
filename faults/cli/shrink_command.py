"""Run ``shrink`` of ``python -m faults``: make a plan smaller under which a target fails, and report the smallest."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from faults.cli.options import (
    BOUND,
    BUDGET,
    DEADLINE,
    DEADLINE_OF_SWEEP,
    DIR,
    EXPECT,
    LEAKS,
    OF_RESULTS,
    PLAN,
    Option,
    with_faults,
)
from faults.cli.reports import REPORTS, check_reports, stored, write_run
from faults.cli.targets import Target, target_of
from faults.judge.rules import exit_status
from faults.ledger import record
from faults.ledger.run_files import remove_numbered, reserved
from faults.plan.plan import Plan
from faults.run.shrink import Shrinker, Trial
from faults.run.sweep import Runner
from reference.cli.options import BadInput
from reference.system.text import one_line, printable

OF_SHRINKS: tuple[Option, ...] = (PLAN, BUDGET, DIR, LEAKS, EXPECT, *REPORTS)

_ABOUT = (
    "Run {} under a plan that makes it fail, then under smaller plans, as long as it fails in the same way, and print "
    "the smallest one."
)
_OPTIONS = ((*OF_SHRINKS, DEADLINE), (*OF_RESULTS, DEADLINE_OF_SWEEP, BOUND, *OF_SHRINKS))


def main(arguments: Sequence[str], program: list[str] | None) -> int:
    """Run the command for a tutorial, or for the program of these words, and return its exit status."""
    target, options = target_of("shrink", _ABOUT, arguments, program, _OPTIONS)
    failing = "a plan under which the program fails"
    plan = with_faults(options.plan, f"shrink what? wanted --plan PLAN, {failing}", failing)
    return shrink_target(target, plan, options)


def shrink_target(target: Target, plan: Plan, options: Any) -> int:
    """Shrink the plan for any target, and return the exit status. ``options``: those of `OF_SHRINKS`."""
    check_reports(options)
    target.check(plan)
    with stored(options.dir) as (place, passed), reserved(place):
        _, run = target.again(place)
        return shrink_plan(run, target.name, plan, place, options, passed)


def tell(trial: Trial) -> None:
    """Print one line about a run to the standard error."""
    number, verdict = int(trial.folder.name), trial.judgement.verdict
    how = "" if number == 0 else ", again" if trial.again else ", kept" if trial.alike else ", not kept"
    print(one_line(f"run {number}, {trial.seconds:.1f} s: {verdict}{how}: {trial.plan}"), file=sys.stderr, flush=True)


def report(name: str, shrinker: Shrinker) -> None:
    """Print the smallest plan that was seen to fail, ready to paste, on the last line."""
    found = shrinker.smallest
    assert found is not None, "the given plan fails"
    size, given = len(found.plan.faults), len(shrinker.given.faults)
    head = f"{name}: {found.judgement.verdict} under {size} of {given} {'fault' if given == 1 else 'faults'}"
    print(one_line(f"{head}, after {_runs(len(shrinker.trials))}"))
    removed = [f"removed: {fault}" for number, fault in enumerate(shrinker.given.faults) if number not in shrinker.kept]
    for line in (*removed, *_certainty(shrinker)):
        print(one_line(line))
    print(one_line(f"the smallest failing run: {found.folder}"))
    print(printable(f"plan: {found.plan}"))  # whole, however long, because it is pasted


def _certainty(shrinker: Shrinker) -> list[str]:
    """Say how sure it is that the plan fails, and that it is the smallest one."""
    failed, runs = shrinker.failures
    lines = [f"failed in {failed} of {_runs(runs)}"]
    if failed < runs:
        lines[0] += ": it does not fail in every run, so a smaller one may have passed by chance"
    if not shrinker.minimal:
        lines.append("the budget was spent, or the shrink was interrupted, before each fault was left out")
    elif failed == runs:
        lines.append("no fault can be left out")
    return lines


def _runs(count: int) -> str:
    return f"{count} run" if count == 1 else f"{count} runs"


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
        folder, judgement = shrinker.smallest.folder, shrinker.smallest.judgement
        try:
            report(name, shrinker)
        finally:  # even if nobody can read it, such as in a terminal that was closed
            write_run(options, record.read(folder), judgement, folder)
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
