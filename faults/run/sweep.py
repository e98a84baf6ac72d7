"""Sweep a subject: record the calls of a healthy run, then run it once for each site, kind, and first and last
occurrence."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.ledger.census import Calls, census
from faults.plan.engine_sites import refusal
from faults.plan.plan import Fault, Plan
from faults.run.runs import bound_of, run
from faults.run.subject import Subject
from faults.verdict.checks import Judgement
from faults.verdict.time_bounds import MARGIN

# What is done to a call, by the name in the table of verdicts. `Order` is not among them: it needs several callers.
INJECTIONS: Mapping[str, Mapping[str, Any]] = {
    "Delay request": {"kind": "Delay", "side": "request", "seconds": 0.2},
    "Delay reply": {"kind": "Delay", "side": "reply", "seconds": 0.2},
    "Raise request": {"kind": "Raise", "side": "request"},
    "Raise reply": {"kind": "Raise", "side": "reply"},
    "Drop request": {"kind": "Drop", "side": "request"},
    "Drop reply": {"kind": "Drop", "side": "reply"},
    "Duplicate": {"kind": "Duplicate"},
    "Crash before": {"kind": "Crash", "when": "before"},
    "Crash after": {"kind": "Crash", "when": "after"},
}

# Only if they are asked for: `wrong` is the right verdict for a program that does not check its data.
CORRUPTIONS: Mapping[str, Mapping[str, Any]] = {
    "Corrupt request": {"kind": "Corrupt", "side": "request", "how": "zeros"},
    "Corrupt reply": {"kind": "Corrupt", "side": "reply", "how": "zeros"},
}

ORDER = "Order"


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
class Result:
    """A cell's run. ``detail``: the texts of failed checks; for a clean error, how each role ended."""

    cell: Cell
    judgement: Judgement
    detail: str
    seconds: float
    folder: Path

    @property
    def passed(self) -> bool | None:
        """Whether the run passed; None: unknown. An error after a harmless fault is a defect, even a clean error."""
        return False if self.cell.harmless and self.judgement.verdict == "clean error" else self.judgement.passed


def cells(sites: Mapping[str, Calls], timeout: float, *, corrupt: bool = False) -> Iterator[Cell]:
    """Yield every cell, with those of `CORRUPTIONS` if ``corrupt``.

    'first' is the first caller's first call, 'last' the last caller's last call.
    """
    injections = {**INJECTIONS, **(CORRUPTIONS if corrupt else {})}
    for site, calls in sites.items():
        first, last = next(iter(calls.callers.items())), list(calls.callers.items())[-1]
        places = {"first": (first[0], 1), "last": last}
        if first[0] == last[0] and last[1] == 1:
            del places["last"]
        for injection, fields in injections.items():
            if refusal(fields["kind"], {"site": site, **fields}) is None:
                for occurrence, (role, nth) in places.items():
                    yield Cell(site, injection, occurrence, Fault(site=site, role=role, nth=nth, **fields))
        if len(calls.callers) > 1 and len(calls.callees) == 1 and refusal("Order", {"site": site}) is None:
            yield from _orders(site, calls.callers, timeout)


def _orders(site: str, callers: Mapping[str, int], seconds: float) -> Iterator[Cell]:
    """Yield the cells that make callers execute in reverse: the opposite of the order in which they mostly call."""
    roles = tuple(reversed(list(callers)))
    for occurrence, nth in {"first": 1, "last": min(callers.values())}.items():
        if occurrence == "first" or nth > 1:
            fault = Fault(kind="Order", site=site, roles=roles, nth=nth, seconds=seconds)
            yield Cell(site, ORDER, occurrence, fault)


def record(subject: Subject, folder: Path) -> tuple[dict[str, Calls], float]:
    """Run a subject without faults: its sites, and its seconds. Raises SweepFailed: it fails, or calls nothing."""
    found, judgement = run(subject, Plan(), folder, recorded=True)
    if judgement.verdict not in ("equal", "returned"):
        raise SweepFailed(f"the healthy run of {subject.name} is not healthy: {'; '.join(map(str, judgement.checks))}")
    sites = census(found.timeline)
    if not sites:
        raise SweepFailed(f"{subject.name} calls no Python function over RPC: a sweep needs at least one call")
    return sites, found.seconds


def sweep(
    subject: Subject,
    todo: Sequence[Cell],
    folder: Path,
    *,
    healthy: float,
    budget: float | None = None,
    on_start: Callable[[int, Cell], object] = lambda number, cell: None,
) -> Iterator[Result]:
    """Run the cells, each in its own folder, until ``budget`` seconds have passed; at least one cell is run.

    ``healthy``: seconds of a healthy run, from which each run's deadline is computed.
    """
    begun, deadline = time.monotonic(), 3 * healthy + bound_of(subject) + MARGIN
    for number, cell in enumerate(todo):
        if number and budget is not None and time.monotonic() - begun >= budget:
            return
        on_start(number, cell)
        place = folder / f"{number:04d}"
        found, judgement = run(subject, Plan((cell.fault,)), place, deadline=deadline)
        ends = [f"{role} {end.text}" for role, end in found.ends.items() if not end.returned]
        failed = [str(check.text) for check in judgement.checks if check.holds is not True]
        yield Result(cell, judgement, "; ".join(failed or ends), found.seconds, place)
