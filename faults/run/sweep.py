"""Sweep a program: record the calls of a healthy run, then run it once for each site, kind, and first and last
occurrence."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.ledger.census import Calls, census
from faults.ledger.record import Run
from faults.plan.engine_sites import refusal
from faults.plan.plan import Fault, Plan, PlanError
from faults.plan.site import INTERNAL
from faults.verdict.checks import Judgement

# What is done to a call, by the name in the table of verdicts. `Order` is not among them: it needs several callers.
INJECTIONS: Mapping[str, Mapping[str, Any]] = {
    "Delay request": {"kind": "Delay", "side": "request", "seconds": 0.2},
    "Delay reply": {"kind": "Delay", "side": "reply", "seconds": 0.2},
    "Raise request": {"kind": "Raise", "side": "request"},
    "Raise reply": {"kind": "Raise", "side": "reply"},
    "Raise flight": {"kind": "Raise", "side": "flight"},
    "Drop request": {"kind": "Drop", "side": "request"},
    "Drop reply": {"kind": "Drop", "side": "reply"},
    "Duplicate": {"kind": "Duplicate"},
    "Crash before": {"kind": "Crash", "when": "before"},
    "Crash after": {"kind": "Crash", "when": "after"},
}

# Only if they are asked for: `wrong` is the right verdict for a program that does not check its data.
CORRUPTIONS: Mapping[str, Mapping[str, Any]] = {
    "Corrupt request": {"kind": "Corrupt", "side": "request", "change": "zeros"},
    "Corrupt reply": {"kind": "Corrupt", "side": "reply", "change": "zeros"},
}

ORDER = "Order"

# Runs a program once under a plan, with all files in a folder.
Runner = Callable[[Plan, Path], tuple[Run, Judgement]]


class SweepFailed(RuntimeError):
    """The healthy run failed, so runs with faults would show nothing. The message says why."""


@dataclass(frozen=True)
class Cell:
    """One run that a sweep will make. ``injection``: a name of `INJECTIONS` or `CORRUPTIONS`, or `ORDER`."""

    site: str
    injection: str
    occurrence: str
    fault: Fault

    @property
    def harmless(self) -> bool:
        """Whether the fault loses nothing, so that the run has to end with an equal trace."""
        return self.fault.kind in ("Delay", "Order")

    @property
    def caller(self) -> str:
        """Name the caller and the number of the call that the fault hits, as ``trainer1#2``."""
        return f"{self.fault.role or ','.join(self.fault.roles or ())}#{self.fault.nth}"


@dataclass(frozen=True)
class Unhurt:
    """A call that a sweep does not hurt in this way, and why. ``injection``: a kind, or 'all'."""

    site: str
    injection: str
    reason: str


@dataclass(frozen=True)
class Result:
    """A cell's run.

    ``detail``: the texts of failed checks; for a clean error, how each role ended; ``ends``: how each role ended;
    ``waits``: where each process of an overdue script waited.
    """

    cell: Cell
    judgement: Judgement
    detail: str
    seconds: float
    folder: Path
    ends: Mapping[str, str] = field(default_factory=dict)
    waits: Mapping[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool | None:
        """Whether the run passed; None: unknown. An error after a harmless fault is a defect, even a clean error.

        A fault that did not fire is no defect of the program, which may have made fewer calls than the healthy run did.
        """
        if self.judgement.verdict == "not fired":
            return None
        return False if self.cell.harmless and self.judgement.verdict == "clean error" else self.judgement.passed


def every_way(sites: Mapping[str, Calls], timeout: float, *, corrupt: bool = False) -> Iterator[Cell | Unhurt]:
    """Yield every cell, with those of `CORRUPTIONS` if ``corrupt``, and what cannot be hurt.

    'first' is the first caller's first call, 'last' the last caller's last call. ``timeout``: seconds that a call waits
    for its turn (`Order`).
    """
    injections = {**INJECTIONS, **(CORRUPTIONS if corrupt else {})}
    for site, calls in sites.items():
        if site.startswith(INTERNAL):
            yield Unhurt(site, "all", "torch calls it by itself; a plan can name it")
            continue
        try:
            yield from _injections(site, calls, injections)
            yield from _orders(site, calls, timeout)
        except PlanError as error:
            yield Unhurt(site, "all", f"no plan can name it: {error}")


def _injections(site: str, calls: Calls, injections: Mapping[str, Mapping[str, Any]]) -> Iterator[Cell | Unhurt]:
    first, last = next(iter(calls.callers.items())), list(calls.callers.items())[-1]
    places = {"first": (first[0], 1), "last": last}
    if first[0] == last[0] and last[1] == 1:
        del places["last"]
    for injection, fields in injections.items():
        reason = refusal(fields["kind"], {"site": site, **fields})
        if reason is not None:
            yield Unhurt(site, injection, reason)
            continue
        if calls.remote and fields.get("side") == "flight":
            yield Unhurt(site, injection, "a `remote` has no future that could fail")
            continue
        for occurrence, (role, nth) in places.items():
            yield Cell(site, injection, occurrence, Fault(site=site, role=role, nth=nth, **fields))


def _orders(site: str, calls: Calls, seconds: float) -> Iterator[Cell | Unhurt]:
    """Yield the cells that make callers execute in reverse: the opposite of the order in which they mostly call."""
    if (reason := refusal(ORDER, {"site": site})) is not None:
        yield Unhurt(site, ORDER, reason)
        return
    if len(calls.callers) == 1:
        yield Unhurt(site, ORDER, f"{next(iter(calls.callers))} alone calls it")
        return
    if len(calls.callees) > 1:
        yield Unhurt(site, ORDER, f"it executes on several roles: {', '.join(calls.callees)}")
        return
    roles = tuple(reversed(list(calls.callers)))
    for occurrence, nth in {"first": 1, "last": min(calls.callers.values())}.items():
        if occurrence == "first" or nth > 1:
            fault = Fault(kind="Order", site=site, roles=roles, nth=nth, seconds=seconds)
            yield Cell(site, ORDER, occurrence, fault)


def all_passed(passed: Collection[bool | None]) -> bool | None:
    """Whether all runs passed: False if one failed, otherwise None if one is unknown."""
    return False if False in passed else None if None in passed else True


def record(run: Runner, name: str, folder: Path) -> Run:
    """Run a program without faults. Raises SweepFailed: it fails, or calls nothing."""
    found, judgement = run(Plan(), folder)
    if judgement.verdict not in ("equal", "returned"):
        why = "; ".join(str(check) for check in judgement.checks if check.holds is not True)
        raise SweepFailed(f"the healthy run of {name} is not healthy: {why}")
    if not census(found.timeline):
        raise SweepFailed(f"{name} calls no Python function over RPC: a sweep needs at least one call")
    return found


def sweep(
    run: Runner,
    todo: Sequence[Cell],
    folder: Path,
    *,
    budget: float | None = None,
    on_start: Callable[[int, Cell], object] = lambda number, cell: None,
) -> Iterator[Result]:
    """Run the cells, each in its own folder, until ``budget`` seconds have passed; at least one cell is run."""
    begun = time.monotonic()
    for number, cell in enumerate(todo):
        if number and budget is not None and time.monotonic() - begun >= budget:
            return
        on_start(number, cell)
        place = folder / f"{number:04d}"
        found, judgement = run(Plan((cell.fault,)), place)
        yield _result(cell, found, judgement, place)


def _result(cell: Cell, found: Run, judgement: Judgement, place: Path) -> Result:
    errors = [f"{role} {end.text}" for role, end in found.ends.items() if not end.returned]
    failed = [str(check.text) for check in judgement.checks if check.holds is not True]
    ends = {role: end.text for role, end in found.ends.items()}
    return Result(cell, judgement, "; ".join(failed or errors), found.seconds, place, ends, found.waits)
