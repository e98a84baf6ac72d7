"""Did the plan's faults happen, and bite? From the ledgers alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from faults.ledger import Event
from faults.messages import bites as of_messages
from faults.messages import evidence
from faults.plan import Fault
from faults.record import Run

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
    starts = Counter(event.role for event in run.timeline.of("start"))
    proof, calls, hits = evidence(run.plan, run.timeline), _callers(run), _hits(run)
    wrong, unseen = [], []
    for number, fault in enumerate(run.plan.faults):
        if fault.place == "message":
            unseen += [str(fault)] if proof.get(number) is None else []
        elif not _often_enough(fault, counts[number], starts):
            why = f" (recorded calls of it: {calls[fault.site]})" if fault.place == "call" else _failed(run, number)
            wrong.append(f"{fault} fired {counts[number]} times, wanted {_wanted(fault)}{why}")
        elif hits.get(number, counts[number]) != counts[number]:
            wrong.append(f"{fault} fired {counts[number]} times, wanted {hits[number]}, the calls that it has hit")
    if wrong:
        return False, "; ".join(wrong)
    if unseen:
        return None, f"{', '.join(unseen)}: left no evidence"
    return True, f"{len(run.plan.faults)} of {len(run.plan.faults)} faults"


def _hits(run: Run) -> dict[int, int]:
    """The calls that a plan's only fault of a call has hit, as callers say, by its number; empty unless each of them
    must have arrived: all lived, and no fault came before."""
    planned = run.plan.at("call")
    if len(planned) != 1 or not all(end.returned for end in run.ends.values()):
        return {}
    number, fault = next(iter(planned.items()))
    count = sum(number in event.details.get("faults", ()) for event in run.timeline.of("invoke"))
    return {number: count} if count and fault.kind != "Order" else {}


def _callers(run: Run) -> defaultdict[str | None, str]:
    """Of each site who called it how often: for a plan that has named another role."""
    counts = Counter((str(event.details.get("site")), event.role) for event in run.timeline.of("invoke"))
    found = defaultdict[str | None, str](lambda: "none")
    for (site, role), count in sorted(counts.items()):
        found[site] = f"{found[site]}, {count} by {role}" if site in found else f"{count} by {role}"
    return found


def _failed(run: Run, number: int) -> str:
    """Why it could not be fired, where a role says so."""
    whys = (event.details.get("why") for event in run.timeline.of("failed") if event.details["fault"] == number)
    why = next(whys, None)
    return "" if why is None else f" ({why})"


def bitten(run: Run) -> Proof:
    """What fired had its effect, where that can be seen."""
    ends = _Ends(run)
    without = [(run.plan.faults[e.details["fault"]], e) for e in firings(run) if not _took_effect(run, ends, e)]
    text = "; ".join(f"{fault} fired, and {_seen_instead(fault, event)}" for fault, event in without)
    return not without, text or "seen of all that fired, where it can be"


class _Ends:
    """Of all calls which were answered and which not, and which faults had an effect: looked up for each firing."""

    def __init__(self, run: Run) -> None:
        answered = run.timeline.of("ok")
        self.answered = {(event.role, *event.call) for event in answered}
        # Of `rpc.remote` an "ok" says that the call got there; an exception waits for who fetches the value.
        self.returned = {(event.role, *event.call) for event in answered if event.details.get("via") != "remote"}
        self.given_up = {(event.role, *event.call) for event in run.timeline.of("fail", "info")}
        self.effective = {event.details.get("fault") for event in run.timeline.of("effective")}


def _took_effect(run: Run, ends: _Ends, event: Event) -> bool:
    fault = run.plan.faults[event.details["fault"]]
    if fault.place == "call" and fault.kind in ("Drop", "Raise", "Crash"):
        call = (event.details["caller"], event.details["site"], event.details["nth"])
        return call not in (ends.returned if fault.kind == "Raise" else ends.answered)
    if fault.place == "call" and fault.kind == "Delay" and (event.details.get("caller"), *event.call) in ends.given_up:
        return True  # its caller did not wait, and the callee had no time left to say how late it was
    if fault.kind == "Crash" and _killed(run, str(fault.role)):
        return True  # of who kills itself nobody writes down the effect
    return event.details["fault"] in ends.effective


def _killed(run: Run, role: str) -> bool:
    return role in run.ends and run.ends[role].kind == "Killed"


def _seen_instead(fault: Fault, event: Event) -> str:
    if fault.place == "call" and fault.kind in ("Drop", "Raise", "Crash"):
        return f"{event.details['caller']} was answered all the same"
    return "hit no packet" if fault.place == "network" else "nobody saw its effect"


def _once(fault: Fault) -> bool:
    return fault.place in ("process", "network") or (fault.nth is not None and (fault.role or fault.roles) is not None)


def _often_enough(fault: Fault, count: int, starts: Mapping[str, int]) -> bool:
    """Once is once each time that RPC starts for the role which decides, since everything counts anew then.

    ``starts``: how often it has started, by role.
    """
    if not _once(fault):
        return count >= 1
    roles = {fault.moment.role} if fault.moment else set(fault.roles or [fault.role])
    return 1 <= count <= max(1, *(starts.get(str(role), 0) for role in roles))


def _wanted(fault: Fault) -> str:
    return "1" if _once(fault) else "at least 1"
