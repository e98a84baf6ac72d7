"""Prove from the ledgers alone that the faults of a plan fired and had an effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from faults.ledger.ledger import Event
from faults.ledger.record import Run
from faults.plan.plan import Fault
from faults.verdict.effects import Effects
from faults.verdict.message_evidence import evidence
from faults.verdict.message_evidence import first_calls as of_messages
from faults.verdict.not_fired import Reasons

# Whether it holds (None: unknown), and what was seen.
Proof = tuple[bool | None, str]


def firings(run: Run) -> list[Event]:
    """Return the firings of the plan's own faults."""
    faults = range(len(run.plan.faults))
    return [event for event in run.timeline.of("fired") if event.details.get("fault") in faults]


def first_effects(run: Run) -> dict[int, Event | None]:
    """Find the event of each fault's first known effect; None: no event shows one.

    For a fault of a message it is the first call that failed by it, as the caller recorded the call's end. For an
    `Order` it is the first call that it may hold back: an `Order` fires only when its last call is done, and never if
    the calls do not meet.
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
    reasons, hits = Reasons(run), _hits(run)
    wrong, unseen = [], []
    for number, fault in enumerate(run.plan.faults):
        if fault.place == "message":
            unseen += [str(fault)] if proof.get(number) is None else []
        elif not _often_enough(starts, fault, counts[number]):
            wrong.append(f"{fault} fired {counts[number]} times, wanted {_wanted(fault)}{reasons.of(number, fault)}")
        elif hits.get(number, counts[number]) != counts[number]:
            wrong.append(f"{fault} fired {counts[number]} times, wanted {hits[number]}: the calls that it hit")
    if wrong:
        return False, "; ".join(wrong)
    if unseen:
        return None, f"{', '.join(unseen)}: left no evidence"
    return True, f"{len(run.plan.faults)} of {len(run.plan.faults)} faults"


def _hits(run: Run) -> dict[int, int]:
    """Count the calls that callers say a fault hit, if each must have arrived: all roles returned, no other fault."""
    calls = run.plan.at("call")
    if len(calls) != 1 or not all(end.returned for end in run.ends.values()):
        return {}
    ((number, fault),) = calls.items()
    count = sum(number in event.details.get("faults", ()) for event in run.timeline.of("invoke"))
    count -= sum(event.details.get("fault") == number for event in run.timeline.of("failed"))  # such as no tensor
    return {number: count} if count and fault.kind != "Order" else {}


def effective(run: Run) -> Proof:
    """Every fault that fired had its effect, if the ledgers can show one."""
    effects = Effects(run)
    without = [(run.plan.faults[e.details["fault"]], e) for e in firings(run) if not effects.has(e)]
    text = "; ".join(f"{fault} fired, but {_seen_instead(fault, event)}" for fault, event in without)
    return not without, text or "seen for every fault that fired, as far as the ledgers can show it"


def _seen_instead(fault: Fault, event: Event) -> str:
    if fault.kind == "Corrupt":
        return f"nothing was changed: the tensor has these bits already ({event.details.get('old')})"
    if fault.place == "call" and fault.kind in ("Drop", "Raise", "Crash"):
        return f"{event.details['caller']} got an answer nevertheless"
    return "hit no packet" if fault.place == "network" else "no role saw an effect"


def _once(fault: Fault) -> bool:
    counted = fault.nth is not None and (fault.role or fault.roles) is not None
    return fault.place in ("process", "network") or counted or fault.numbered


def _often_enough(starts: Mapping[str, int], fault: Fault, count: int) -> bool:
    """Whether a fault fired often enough. 'Once' means once per start of RPC, because counts begin anew then."""
    if not _once(fault):
        return count >= 1
    roles = {fault.moment.role} if fault.moment else set(fault.callers or [fault.role])
    return 1 <= count <= max(1, *(starts.get(str(role), 0) for role in roles))


def _wanted(fault: Fault) -> str:
    return "1" if _once(fault) else "at least 1"
