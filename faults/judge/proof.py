"""Prove from the ledgers alone that the faults of a plan fired, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from faults.judge.hints import Reasons
from faults.judge.message_evidence import begun, calls_hit, evidence
from faults.ledger.ledger import Event
from faults.ledger.record import Run
from faults.plan.plan import Fault

# Whether it holds (None: unknown), and what was seen.
Proof = tuple[bool | None, str]


def firings(run: Run) -> list[Event]:
    """Return the firings of the plan's own faults."""
    faults = range(len(run.plan.faults))
    return [event for event in run.timeline.of("fired") if event.details.get("fault") in faults]


def first_effects(run: Run) -> dict[int, Event | None]:
    """Find the event of each fault's first known effect; None: no event shows one.

    For a fault of a message it is the beginning of the first call that it hit, as that call's end tells. For an
    `Order` it is the first call that it may hold back: an `Order` fires only when its last call is done, and never if
    the calls do not meet.
    """
    found: dict[int, Event | None] = dict.fromkeys(range(len(run.plan.faults)))
    found.update((number, begun(hit[0])) for number, hit in calls_hit(run.plan, run.timeline).items() if hit)
    for event in reversed(firings(run)):
        found[event.details["fault"]] = event
    orders = {number for number, fault in enumerate(run.plan.faults) if fault.kind == "Order"}
    for event in reversed(run.timeline.of("invoke")):
        found.update(dict.fromkeys(orders.intersection(event.details.get("faults", ())), event))
    return found


def fired(run: Run) -> Proof:
    """Every fault of the plan fired, as often as it says."""
    counts = Counter(event.details["fault"] for event in _completed(run))
    first = {event.details["fault"]: event.time for event in reversed(firings(run))}
    proof = evidence(run.plan, run.timeline)
    reasons, hits = Reasons(run), _hits(run)
    wrong, unseen = [], []
    for number, fault in enumerate(run.plan.faults):
        if fault.place == "message":
            unseen += [str(fault)] if proof.get(number) is None else []
        elif not _often_enough(run, fault, counts[number], first.get(number, 0.0)):
            wrong.append(f"{fault} fired {counts[number]} times, wanted {_wanted(fault)}{reasons.of(number, fault)}")
        elif hits.get(number, counts[number]) != counts[number]:
            wrong.append(f"{fault} fired {counts[number]} times, wanted {hits[number]}: the calls that it hit")
    if wrong:
        return False, "; ".join(wrong)
    if unseen:
        return None, f"{', '.join(unseen)}: left no evidence"
    return True, f"{len(run.plan.faults)} of {len(run.plan.faults)} faults"


def _completed(run: Run) -> Iterator[Event]:
    """Yield the firings that prove a fault. A `Duplicate` fires when a call begins again: it is proven at the end."""
    twice = {number for number, fault in enumerate(run.plan.faults) if fault.kind == "Duplicate"}
    yield from (event for event in firings(run) if event.details["fault"] not in twice)
    yield from (event for event in run.timeline.of("effective") if event.details.get("fault") in twice)


def repeated(run: Run) -> Iterator[str]:
    """Yield a line for each fault that fired more than once, with the number of lives in which it did."""
    counts = Counter(event.details["fault"] for event in firings(run))
    for number, fault in enumerate(run.plan.faults):
        if counts[number] > 1:
            yield f"{fault} fired {_times(counts[number], run, number)}"


def _times(count: int, run: Run, number: int) -> str:
    """Say how often a fault fired, and in how many lives of those whose calls or moments it hit."""
    made = [event for event in run.timeline.of("invoke") if number in event.details.get("faults", ())]
    fired = [event for event in firings(run) if event.details["fault"] == number]
    lives = len({(event.role, event.process) for event in made or fired})
    return f"{count} times" if lives == 1 else f"{count} times, in {lives} lives"


def _hits(run: Run) -> dict[int, int]:
    """Count the calls that callers say a fault hit, if each must have arrived: no other fault, and no call that failed.

    A call without an end, as of a role that was killed, may not have arrived either.
    """
    calls, timeline = run.plan.at("call"), run.timeline
    if len(run.plan.faults) != 1 or not calls:
        return {}
    ((number, fault),) = calls.items()
    hit = [event for event in timeline.of("invoke") if number in event.details.get("faults", ())]
    answered = {(event.role, event.process, *event.call) for event in timeline.of("ok")}
    if fault.kind == "Order" or any((event.role, event.process, *event.call) not in answered for event in hit):
        return {}
    count = len(hit) - sum(event.details.get("fault") == number for event in timeline.of("failed"))  # such as no tensor
    return {number: count} if count else {}


def _once(fault: Fault) -> bool:
    counted = fault.nth is not None and (fault.role or fault.roles) is not None
    return fault.place in ("process", "network") or counted or fault.numbered


def _often_enough(run: Run, fault: Fault, count: int, first: float) -> bool:
    """Whether a fault fired often enough: once in all lives of a role, unless it says ``lives=every``. Lives that
    begin before it has fired (``first``), as in worlds that run at the same time, do not know of each other."""
    if not _once(fault):
        return count >= 1
    roles = {fault.moment.role} if fault.moment else set(fault.callers or [fault.role])
    known = [event.role for event in run.timeline.of("start") if fault.lives == "every" or event.time <= first]
    return 1 <= count <= max(1, *(known.count(str(role)) for role in roles))


def _wanted(fault: Fault) -> str:
    return "1" if _once(fault) else "at least 1"
