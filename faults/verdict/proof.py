"""Prove from the ledgers alone that the faults of a plan happened and bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from faults.ledger.ledger import Event
from faults.ledger.record import Run
from faults.plan.plan import Fault
from faults.verdict.effects import Effects
from faults.verdict.message_evidence import bites as of_messages
from faults.verdict.message_evidence import evidence

# Whether it holds, None where that cannot be told; and what was seen.
Proof = tuple[bool | None, str]


def firings(run: Run) -> list[Event]:
    """The events of faults that are in the plan."""
    faults = range(len(run.plan.faults))
    return [event for event in run.timeline.of("fired") if event.details.get("fault") in faults]


def bites(run: Run) -> dict[int, Event | None]:
    """For each fault of the plan by what it is known to have bitten first, None where nothing tells.

    Of a message's fault that is the first call which it has hurt, as that call's caller saw its end. Of an `Order` it
    is the first call that it may hold: it fires when the last one is done, and never if they do not meet.
    """
    found: dict[int, Event | None] = dict.fromkeys(range(len(run.plan.faults)))
    found.update(of_messages(run.plan, run.timeline))
    for event in reversed(firings(run)):
        found[event.details["fault"]] = event
    orders = {number for number, fault in enumerate(run.plan.faults) if fault.kind == "Order"}
    for event in reversed(run.timeline.of("invoke")):
        found.update(dict.fromkeys(orders.intersection(event.details.get("faults", ())), event))
    return found


def fired(run: Run) -> Proof:
    """Every fault of the plan fired, as often as it says."""
    counts = Counter(event.details["fault"] for event in firings(run))
    proof = evidence(run.plan, run.timeline)
    starts = Counter(event.role for event in run.timeline.of("start"))
    reasons, hits = _Reasons(run), _hits(run)
    wrong, unseen = [], []
    for number, fault in enumerate(run.plan.faults):
        if fault.place == "message":
            unseen += [str(fault)] if proof.get(number) is None else []
        elif not _often_enough(starts, fault, counts[number]):
            wrong.append(f"{fault} fired {counts[number]} times, wanted {_wanted(fault)}{reasons.of(number, fault)}")
        elif hits.get(number, counts[number]) != counts[number]:
            wrong.append(f"{fault} fired {counts[number]} times, wanted {hits[number]}, the calls that it has hit")
    if wrong:
        return False, "; ".join(wrong)
    if unseen:
        return None, f"{', '.join(unseen)}: left no evidence"
    return True, f"{len(run.plan.faults)} of {len(run.plan.faults)} faults"


def _hits(run: Run) -> dict[int, int]:
    """The calls that a fault has hit, as callers say, where each must have arrived: all lived, no other came before."""
    calls = run.plan.at("call")
    if len(calls) != 1 or not all(end.returned for end in run.ends.values()):
        return {}
    ((number, fault),) = calls.items()
    count = sum(number in event.details.get("faults", ()) for event in run.timeline.of("invoke"))
    return {number: count} if count and fault.kind != "Order" else {}


class _Reasons:
    """What the ledgers say of faults that did not fire."""

    def __init__(self, run: Run) -> None:
        self._callers: dict[object, Counter[str]] = {}
        for event in run.timeline.of("invoke"):
            self._callers.setdefault(event.details.get("site"), Counter())[event.role] += 1
        self._failed = {each.details["fault"]: each.details.get("why") for each in run.timeline.of("failed")[::-1]}

    def of(self, number: int, fault: Fault) -> str:
        """Who called the site how often, for who has named another; or what failed first."""
        if fault.place == "call":
            callers = sorted(self._callers.get(fault.site, {}).items())
            calls = ", ".join(f"{count} by {role}" for role, count in callers)
            return f" (recorded calls of it: {calls or 'none'})"
        return f" ({self._failed[number]})" if number in self._failed else ""


def bitten(run: Run) -> Proof:
    """What fired had its effect, where that can be seen."""
    effects = Effects(run)
    without = [(run.plan.faults[e.details["fault"]], e) for e in firings(run) if not effects.has(e)]
    text = "; ".join(f"{fault} fired, and {_seen_instead(fault, event)}" for fault, event in without)
    return not without, text or "seen of all that fired, where it can be"


def _seen_instead(fault: Fault, event: Event) -> str:
    if fault.place == "call" and fault.kind in ("Drop", "Raise", "Crash"):
        return f"{event.details['caller']} was answered all the same"
    return "hit no packet" if fault.place == "network" else "nobody saw its effect"


def _once(fault: Fault) -> bool:
    return fault.place in ("process", "network") or (fault.nth is not None and (fault.role or fault.roles) is not None)


def _often_enough(starts: Mapping[str, int], fault: Fault, count: int) -> bool:
    """Once is once each time that RPC starts for the role which decides, since everything counts anew then."""
    if not _once(fault):
        return count >= 1
    roles = {fault.moment.role} if fault.moment else set(fault.roles or [fault.role])
    return 1 <= count <= max(1, *(starts.get(str(role), 0) for role in roles))


def _wanted(fault: Fault) -> str:
    return "1" if _once(fault) else "at least 1"
