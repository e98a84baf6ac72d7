"""Did the plan's faults happen, and bite? From the ledgers alone."""

from __future__ import annotations

from collections import Counter

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
    for event in reversed(run.timeline.of("invoke")):
        found.update(dict.fromkeys(_orders(run, event), event))
    return found


def _orders(run: Run, call: Event) -> list[int]:
    """Those that this call takes its turn in."""
    faults = enumerate(run.plan.faults)
    return [n for n, fault in faults if fault.kind == "Order" and n in call.details.get("faults", ())]


def fired(run: Run) -> Proof:
    """Every fault of the plan fired, as often as it says."""
    counts = Counter(event.details["fault"] for event in firings(run))
    proof = evidence(run.plan, run.timeline)
    wrong, unseen = [], []
    for number, fault in enumerate(run.plan.faults):
        if fault.place == "message":
            unseen += [str(fault)] if proof.get(number) is None else []
        elif not _often_enough(run, fault, counts[number]):
            wrong.append(f"{fault} fired {counts[number]} times, wanted {_wanted(fault)}{_why_not(run, number, fault)}")
        elif _hits(run, number) not in (None, counts[number]):
            wrong.append(
                f"{fault} fired {counts[number]} times, wanted {_hits(run, number)}, the calls that it has hit"
            )
    if wrong:
        return False, "; ".join(wrong)
    if unseen:
        return None, f"{', '.join(unseen)}: left no evidence"
    return True, f"{len(run.plan.faults)} of {len(run.plan.faults)} faults"


def _hits(run: Run, number: int) -> int | None:
    """The calls that it has hit, as callers say, where each must have arrived: all lived, no fault came before."""
    fault = run.plan.faults[number]
    alone = len(run.plan.at("call")) == 1 and fault.place == "call" and fault.kind != "Order"
    if not alone or not all(end.returned for end in run.ends.values()):
        return None
    return sum(number in event.details.get("faults", ()) for event in run.timeline.of("invoke")) or None


def _why_not(run: Run, number: int, fault: Fault) -> str:
    """What the ledgers say of it: who called the site how often, for who has named another; or what failed."""
    if fault.place == "call":
        callers = Counter(event.role for event in run.timeline.of("invoke") if event.details.get("site") == fault.site)
        calls = ", ".join(f"{count} by {role}" for role, count in sorted(callers.items()))
        return f" (recorded calls of it: {calls or 'none'})"
    failed = [str(event.details.get("why")) for event in run.timeline.of("failed") if event.details["fault"] == number]
    return f" ({failed[0]})" if failed else ""


def bitten(run: Run) -> Proof:
    """What fired had its effect, where that can be seen."""
    without = [(run.plan.faults[e.details["fault"]], e) for e in firings(run) if not _took_effect(run, e)]
    text = "; ".join(f"{fault} fired, and {_seen_instead(fault, event)}" for fault, event in without)
    return not without, text or "seen of all that fired, where it can be"


def _took_effect(run: Run, event: Event) -> bool:
    fault = run.plan.faults[event.details["fault"]]
    if fault.place == "call" and fault.kind in ("Drop", "Raise", "Crash"):
        # Of `rpc.remote` an "ok" says that the call got there; an exception waits for who fetches the value.
        answered = [e for e in run.timeline.of("ok") if fault.kind != "Raise" or e.details.get("via") != "remote"]
        call = (event.details["caller"], event.details["site"], event.details["nth"])
        return not any((e.role, e.details["site"], e.details["nth"]) == call for e in answered)
    if fault.place == "call" and fault.kind == "Delay" and _given_up(run, event):
        return True  # the callee had no time left to say how late it was
    if fault.kind == "Crash" and _killed(run, str(fault.role)):
        return True  # of who kills itself nobody writes down the effect
    return any(e.details.get("fault") == event.details["fault"] for e in run.timeline.of("effective"))


def _given_up(run: Run, event: Event) -> bool:
    """Whether the caller of the hurt call has not waited for its answer."""
    call = (event.details.get("caller"), *event.call)
    ended = run.timeline.of("fail", "info")
    return any((each.role, each.details["site"], each.details["nth"]) == call for each in ended)


def _killed(run: Run, role: str) -> bool:
    return role in run.ends and run.ends[role].kind == "Killed"


def _seen_instead(fault: Fault, event: Event) -> str:
    if fault.place == "call" and fault.kind in ("Drop", "Raise", "Crash"):
        return f"{event.details['caller']} was answered all the same"
    return "hit no packet" if fault.place == "network" else "nobody saw its effect"


def _once(fault: Fault) -> bool:
    return fault.place in ("process", "network") or (fault.nth is not None and (fault.role or fault.roles) is not None)


def _often_enough(run: Run, fault: Fault, count: int) -> bool:
    """Once is once each time that RPC starts for the role which decides, since everything counts anew then."""
    if not _once(fault):
        return count >= 1
    roles = {fault.moment.role} if fault.moment else set(fault.roles or [fault.role])
    starts = Counter(event.role for event in run.timeline.of("start"))
    return 1 <= count <= max(1, *(starts[str(role)] for role in roles))


def _wanted(fault: Fault) -> str:
    return "1" if _once(fault) else "at least 1"
