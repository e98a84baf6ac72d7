"""Sweep a program: record the calls of a healthy run, then run it once for each cell, or for each pair of cells."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from faults.judge.drawing import told
from faults.judge.facts import Facts
from faults.judge.rules import Judgement
from faults.ledger.moments_seen import Moments
from faults.ledger.record import Run
from faults.plan.fields import check_value
from faults.plan.kinds import CALLS, Called, OfCall
from faults.plan.places import INTERNAL
from faults.plan.plan import Fault, Plan, PlanError

# A call: its caller, its site, and its number among the caller's calls of the site.
Call = tuple[str, str, int]

# What is done to a role at one of its moments, by the name in the table of verdicts, with the fields that this needs.
AT: Mapping[str, Mapping[str, Any]] = {"Crash at": {}, "Pause at": {"seconds": 0.5}, "Hold at": {"seconds": 0.2}}
# All that is done, by its name, and why it is done only if it is named; empty if it always is.
VARIANTS: Mapping[str, str] = {
    **{name: kind.swept_if_named for kind in CALLS for name, _ in kind.named_variants()},
    **dict.fromkeys(AT, "hits every moment, of which there are many"),
}


def variants(named: Collection[str] | None) -> list[str]:
    """Select names of `VARIANTS`. ``named``: some of these, or first words of some; None: those that are always done.

    A first word stands for those of its names that are always done, or if none is, for all.
    """
    if named is None:
        return [name for name, why in VARIANTS.items() if not why]
    found = {*named} & VARIANTS.keys()
    for word in named:
        those = [name for name in VARIANTS if name.split()[0] == word]
        found |= {name for name in those if not VARIANTS[name]} or {*those}
    return [name for name in VARIANTS if name in found]


@dataclass(frozen=True)
class Cell:
    """One fault that a sweep will run. ``injection``: a name of `VARIANTS`; ``occurrence``: 'first', 'last', or 'next':
    the call after that of the other cell of its pair."""

    site: str
    injection: str
    occurrence: str
    fault: Fault

    @property
    def caller(self) -> str:
        """Name the caller and the number of the call that the fault hits, as ``trainer1#2``; or the moment."""
        if self.fault.moment is not None:
            return str(self.fault.at)
        return f"{self.fault.role or ','.join(self.fault.roles or ())}#{self.fault.nth}"

    @property
    def hit(self) -> frozenset[Call]:
        """The calls that the fault hits, or whose moment it hits."""
        fault, moment = self.fault, self.fault.moment
        if moment is not None:
            return frozenset({(moment.role, moment.site, moment.number)} if moment.site else ())
        callers = fault.roles or ([] if fault.role is None else [fault.role])
        return frozenset((role, self.site, nth) for role in callers for nth in fault.numbers or ())

    @property
    def name(self) -> str:
        """Name it in the same way on every machine."""
        return f"{self.site} {self.injection} {self.occurrence}"


# What one run hurts: one call, or two at once.
Cells = tuple[Cell, ...]


def plan_of(cells: Cells) -> Plan:
    return Plan(tuple(cell.fault for cell in cells))


@dataclass(frozen=True)
class Unhurt:
    """A call that a sweep does not hurt in this way, and why. ``injection``: a kind, or 'all'."""

    site: str
    injection: str
    reason: str


def every_way(
    sites: Mapping[str, Called], timeout: float, names: Collection[str], moments: Sequence[Moments] = ()
) -> Iterator[Cell | Unhurt]:
    """Yield every cell of these names, and what cannot be hurt.

    'first' is the first caller's first call, 'last' the last caller's last call; of moments, one role's first and last.
    ``timeout``: seconds that a call waits for its turn (`Order`).
    """
    for site, calls in sites.items():
        if site.startswith(INTERNAL):
            yield Unhurt(site, "all", "not a call of the program; a plan can name it")
            continue
        try:
            check_value("a fault", "site", site)
        except PlanError as error:
            yield Unhurt(site, "all", f"no plan can name it: {error}")
            continue
        for kind in CALLS:
            yield from _ways(site, calls, kind, timeout, names)
    for each in moments:
        try:
            yield from _at(each, names)
        except PlanError as error:
            yield Unhurt(_site(each), "all", f"no plan can name it: {error}")


def _ways(site: str, calls: Called, kind: OfCall, timeout: float, names: Collection[str]) -> Iterator[Cell | Unhurt]:
    for name, values in kind.named_variants():
        if name not in names:
            continue
        try:
            for occurrence, where in kind.occurrences(site, calls, values, timeout).items():
                yield Cell(site, name, occurrence, Fault(kind=kind.name, site=site, **where, **values))
        except PlanError as error:
            yield Unhurt(site, name, str(error))


def _at(moments: Moments, names: Collection[str]) -> Iterator[Cell]:
    """Yield the cells that hit a role at its own moments."""
    for name, values in AT.items():
        if name in names:
            for occurrence, at in {"first": moments.first, "last": moments.last}.items():
                if occurrence == "first" or at != moments.first:
                    fault = Fault(kind=name.split()[0], role=at.role, at=str(at), **values)
                    yield Cell(_site(moments), name, occurrence, fault)


def _site(moments: Moments) -> str:
    return f"{moments.first.site or moments.first.event} by {moments.first.role}"


def breadth_first(every: Sequence[Cell]) -> list[Cell]:
    """Order cells so that each site is hurt once before any is hurt twice, because a budget may end the sweep."""
    of_site: dict[str, int] = {}
    rounds = []
    for cell in every:
        of_site[cell.site] = of_site.get(cell.site, 0) + 1
        rounds.append(of_site[cell.site])
    return [cell for _, cell in sorted(zip(rounds, every, strict=True), key=lambda pair: pair[0])]


@dataclass
class Swept:
    """The results of a sweep. ``wanted``: how many cells and pairs it was to run; ``unhurt``: what no cell hurts."""

    results: list[Result] = field(default_factory=list)
    wanted: int = 0
    unhurt: Sequence[Unhurt] = ()

    @property
    def not_run(self) -> int:
        """The number of cells and pairs that were left when the budget or the sweep ended."""
        return self.wanted - len(self.results)


# Runs a program once under a plan, with all files in a folder.
Runner = Callable[[Plan, Path], tuple[Run, Judgement]]


class SweepFailed(RuntimeError):
    """The healthy run failed, so runs with faults would show nothing. The message says why."""


@dataclass(frozen=True)
class Result:
    """The run of a cell or of a pair of cells. ``told``: what reports tell of it; ``calls``: how many each caller made
    of each site, in a life at most."""

    cells: Cells
    judgement: Judgement
    folder: Path
    told: Mapping[str, Any] = field(default_factory=dict)
    calls: Mapping[tuple[str, str], int] = field(default_factory=dict)

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


def sweep(
    run: Runner,
    todo: Sequence[Cells],
    folder: Path,
    *,
    due: float | None,
    done: int,
    on_start: Callable[[int], object],
) -> Generator[Result, None, None]:
    """Run each of ``todo`` in its own folder, until ``due`` (monotonic seconds). ``done``: how many were run before. If
    none was, at least one is."""
    for number, cells in enumerate(todo, done):
        if number and due is not None and time.monotonic() >= due:
            return
        on_start(number - done)
        yield run_cell(run, cells, in_folder(folder, number))


def in_folder(folder: Path, number: int) -> Path:
    """Name the folder of one run of a sweep."""
    return folder / f"{number:04d}"


def run_cell(run: Runner, cells: Cells, place: Path) -> Result:
    """Run a cell, or a pair, once."""
    found, judgement = run(plan_of(cells), place)
    calls: dict[tuple[str, str], int] = {}
    for event in found.timeline.of("invoke", "gradient"):
        made = event.role, str(event.details["site"])
        calls[made] = max(calls.get(made, 0), int(event.details["nth"]))
    return Result(cells, judgement, place, told(Facts(found)), calls)


def pairs_of(results: Sequence[Result]) -> Iterator[Cells]:
    """Combine the cells under which the program has done its work; a failure hides what would come after it.

    Each cell comes first with the same fault at the next call, which may be the retry of the one that was hit. Then
    come each two cells that hit different calls. A call counts only if the run under the other fault has made it.
    """
    survived = [(result.cells[0], result.calls) for result in results if result.judgement.succeeded]
    tried = {cell.fault for result in results for cell in result.cells}
    for cell, calls in survived:
        if cell.fault.place != "call":
            continue
        following = replace(cell, occurrence="next", fault=replace(cell.fault, nth=max(cell.fault.numbers or [0]) + 1))
        if _made(following.hit, calls) and following.fault not in tried:
            yield cell, following
    for (first, calls_of_first), (second, calls_of_second) in combinations(survived, 2):
        both = _made(first.hit, calls_of_second) and _made(second.hit, calls_of_first)
        if both and first.hit.isdisjoint(second.hit):
            yield first, second


def _made(hit: Collection[Call], calls: Mapping[tuple[str, str], int]) -> bool:
    return all(calls.get((caller, site), 0) >= nth for caller, site, nth in hit)
