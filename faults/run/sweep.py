"""Sweep a program: record the calls of a healthy run, then run it once for each cell, or for each pair of cells."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from faults.judge.facts import how_all_ended
from faults.judge.rules import Judgement
from faults.ledger.census import census
from faults.ledger.record import Run
from faults.plan.plan import Plan
from faults.run.call_ends import call_ends
from faults.run.cells import Call, Cell, Pair

# Runs a program once under a plan, with all files in a folder.
Runner = Callable[[Plan, Path], tuple[Run, Judgement]]


class SweepFailed(RuntimeError):
    """The healthy run failed, so runs with faults would show nothing. The message says why."""


@dataclass(frozen=True)
class Result:
    """The run of a cell or a pair.

    ``detail``: the texts of rules that do not hold; of a run that failed loudly, how each role ended; ``ends``: that;
    ``waits``: where each process of an overdue script waited; ``calls``: the calls that were made, and their ends.
    """

    cell: Cell | Pair
    judgement: Judgement
    detail: str
    seconds: float
    folder: Path
    ends: Mapping[str, str] = field(default_factory=dict)
    waits: Mapping[str, str] = field(default_factory=dict)
    calls: Mapping[Call, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool | None:
        """Whether the run passed; None: unknown.

        A fault that did not fire is no defect of the program, which may have made fewer calls than the healthy run did.
        """
        return None if self.judgement.verdict == "not fired" else self.judgement.passed


def all_passed(passed: Collection[bool | None]) -> bool | None:
    """Whether all runs passed: False if one failed, otherwise None if one is unknown."""
    return False if False in passed else None if None in passed else True


def healthy(run: Runner, name: str, folder: Path) -> Run:
    """Run a program without faults. Raises SweepFailed: it fails."""
    found, judgement = run(Plan(), folder)
    if not judgement.succeeded:
        why = "; ".join(map(str, judgement.complaints)) or judgement.verdict
        raise SweepFailed(f"the healthy run of {name} is not healthy: {why}")
    return found


def record(run: Runner, name: str, folder: Path) -> Run:
    """Run a program without faults, to see its calls. Raises SweepFailed: it fails, or calls nothing."""
    found = healthy(run, name, folder)
    if not census(found.timeline):
        raise SweepFailed(f"{name} calls no Python function over RPC: a sweep needs at least one call")
    return found


def sweep(
    run: Runner,
    todo: Sequence[Cell | Pair],
    folder: Path,
    *,
    budget: float | None = None,
    spent: float = 0.0,
    done: int = 0,
    on_start: Callable[[int, Cell | Pair], object] = lambda number, cell: None,
) -> Iterator[Result]:
    """Run the cells, each in its own folder, until ``budget`` seconds have passed.

    ``spent``: seconds of the budget that have passed before; ``done``: how many cells were run before. If none was, at
    least one is.
    """
    begun = time.monotonic() - spent
    for number, cell in enumerate(todo):
        if done + number and budget is not None and time.monotonic() - begun >= budget:
            return
        on_start(number, cell)
        place = folder / f"{done + number:04d}"
        found, judgement = run(cell.plan, place)
        yield _result(cell, found, judgement, place)


def _result(cell: Cell | Pair, found: Run, judgement: Judgement, place: Path) -> Result:
    ends = how_all_ended(found)
    errors = [f"{role} {text}" for role, text in ends.items() if text != "returned"]
    failed = [check.text for check in judgement.complaints]
    detail, calls = "; ".join(failed or errors), call_ends(found.timeline)
    return Result(cell, judgement, detail, found.seconds, place, ends, found.waits, calls)
