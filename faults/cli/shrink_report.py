"""Tell each run of a shrink in a line, and in the end the smallest plan and what was removed."""

from __future__ import annotations

import sys

from faults.plan.plan import Plan
from faults.run.shrink import Shrinker, Trial
from reference.system.printable import one_line, printable


def tell(trial: Trial) -> None:
    """Print one line about a run to the standard error."""
    number, verdict = int(trial.folder.name), trial.judgement.verdict
    how = "" if number == 0 else ", again" if trial.again else ", kept" if trial.alike else ", not kept"
    print(one_line(f"run {number}, {trial.seconds:.1f} s: {verdict}{how}: {trial.plan}"), file=sys.stderr, flush=True)


def report(name: str, shrinker: Shrinker) -> None:
    """Print the smallest plan that was seen to fail, ready to paste, on the last line."""
    found = shrinker.smallest
    if found is None:
        return
    size, given = len(found.plan.faults), len(shrinker.given.faults)
    head = f"{name}: {found.judgement.verdict} under {size} of {given} {'fault' if given == 1 else 'faults'}"
    print(one_line(f"{head}, after {_runs(len(shrinker.trials))}"))
    for line in (*_changes(shrinker.given, shrinker.origins, found.plan), *_certainty(shrinker)):
        print(one_line(line))
    print(one_line(f"the smallest failing run: {found.folder}"))
    print(printable(f"plan: {found.plan}"))  # whole, however long, because it is pasted


def _changes(given: Plan, origins: tuple[int, ...], smallest: Plan) -> list[str]:
    removed = [f"removed: {fault}" for number, fault in enumerate(given.faults) if number not in origins]
    pairs = [(given.faults[number], fault) for number, fault in zip(origins, smallest.faults, strict=True)]
    changed = [f"changed: {before}  ->  {after}" for before, after in pairs if before != after]
    return [*removed, *changed, *([f"changed: seed={given.seed}  ->  seed=0"] if given.seed != smallest.seed else [])]


def _certainty(shrinker: Shrinker) -> list[str]:
    """Say how sure it is that the plan fails, and that it is the smallest one."""
    failed, runs = shrinker.failures
    again = "" if failed == runs else ": it does not fail in every run, so a smaller one may have passed by chance"
    what = "no plan that is one step smaller fails so"
    unfinished = "the budget was spent, or the shrink was interrupted, before all smaller plans were tried"
    if failed < runs:
        return [f"failed in {failed} of {_runs(runs)}{again}", *([] if shrinker.minimal else [unfinished])]
    return [f"failed in {failed} of {_runs(runs)}", what if shrinker.minimal else unfinished]


def _runs(count: int) -> str:
    return f"{count} run" if count == 1 else f"{count} runs"
