"""The faults that a sweep tries: each kind, at each site, in its first and its last call; and two of them at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from faults.ledger.census import Calls
from faults.plan.engine_sites import refusal
from faults.plan.plan import Fault, Plan, PlanError
from faults.plan.site import INTERNAL

# A call: its caller, its site, and its number among the caller's calls of the site.
Call = tuple[str, str, int]

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


@dataclass(frozen=True)
class Cell:
    """One fault that a sweep will run. ``injection``: a name of `INJECTIONS` or `CORRUPTIONS`, or `ORDER`;
    ``occurrence``: 'first', 'last', or 'retry': a call that only the run under another cell has made."""

    site: str
    injection: str
    occurrence: str
    fault: Fault

    @property
    def caller(self) -> str:
        """Name the caller and the number of the call that the fault hits, as ``trainer1#2``."""
        return f"{self.fault.role or ','.join(self.fault.roles or ())}#{self.fault.nth}"

    @property
    def hit(self) -> frozenset[Call]:
        """The calls that the fault hits."""
        fault = self.fault
        callers = fault.roles or ([] if fault.role is None else [fault.role])
        return frozenset((role, self.site, fault.nth or 0) for role in callers)

    @property
    def cells(self) -> tuple[Cell, ...]:
        return (self,)

    @property
    def plan(self) -> Plan:
        return Plan((self.fault,))

    @property
    def name(self) -> str:
        """Name it in the same way on every machine."""
        of_retry = f" {self.caller}" if self.occurrence == "retry" else ""
        return f"{self.site} {self.injection} {self.occurrence}{of_retry}"


@dataclass(frozen=True)
class Pair:
    """Two faults that a sweep will run at once, in the order in which their calls are made."""

    first: Cell
    second: Cell

    @property
    def cells(self) -> tuple[Cell, ...]:
        return (self.first, self.second)

    @property
    def plan(self) -> Plan:
        return Plan((self.first.fault, self.second.fault))

    @property
    def name(self) -> str:
        """Name it in the same way on every machine."""
        return " + ".join(sorted(cell.name for cell in self.cells))


@dataclass(frozen=True)
class Unhurt:
    """A call that a sweep does not hurt in this way, and why. ``injection``: a kind, or 'all'."""

    site: str
    injection: str
    reason: str


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
        reason = _refusal(site, fields, calls.remote)
        if reason is not None:
            yield Unhurt(site, injection, reason)
            continue
        for occurrence, (role, nth) in places.items():
            yield Cell(site, injection, occurrence, Fault(site=site, role=role, nth=nth, **fields))


def _refusal(site: str, fields: Mapping[str, Any], remote: bool) -> str | None:
    """Say why this cannot be done to a call of the site; None if it can. ``remote``: whether `remote` calls it."""
    if remote and fields.get("side") == "flight":
        return "a `remote` has no future that could fail"
    return refusal(fields["kind"], {"site": site, **fields})


def of_retry(call: Call, remote: bool) -> Iterator[Cell]:
    """Yield the cells of one call that a program makes only because another one was hit."""
    role, site, nth = call
    for injection, fields in {**INJECTIONS, **CORRUPTIONS}.items():
        if _refusal(site, fields, remote) is None:
            with suppress(PlanError):
                yield Cell(site, injection, "retry", Fault(site=site, role=role, nth=nth, **fields))


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
