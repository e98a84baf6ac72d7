"""Prove from the ledgers alone that the faults of a plan fired, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from faults.judge.hints import Reasons
from faults.ledger.ledger import Event, Timeline
from faults.ledger.record import Run
from faults.plan.plan import Fault, Plan

# The beginning of the error for a lost message. The message itself follows. If it is no text, Python cannot make the
# error, and raises a UnicodeDecodeError at the message's first byte instead.
LOST = "RPCErr:2:Send attempt failed intentionally for"  # without the blank after it, which a ledger's line may lack
UNREADABLE = f"can't decode byte 0x80 in position {len(LOST) + 1}"
# Python 3.11.2, which Debian 12 has, makes an error without a text of it.
TEXTLESS = "RuntimeError: "
# What `RRef.to_here` says if the message that creates the RRef is lost or late, or if the owner has ended.
NOT_MADE = "RRef creation via rpc.remote() timed out"
# Which recorded calls can show the effect of a fault on a message type.
_CALLS: Mapping[str, str] = {
    "PYTHON_CALL": "rpc",
    "PYTHON_REMOTE_CALL": "remote",
}


def evidence(plan: Plan, timeline: Timeline) -> dict[int, str | None]:
    """Return for each message fault what proves in the recorded calls that it had an effect; None: no proof found.

    A call's ``ok``, ``fail`` or ``info`` has ``via`` (``rpc``: `rpc_sync` and `rpc_async`; ``remote``), the ``seconds``
    that the caller waited, and the ``error``'s text. A Delay is proven if each such call took at least as long, so
    give it more seconds than a healthy call needs. Calls of TorchScript functions and fetches of an RRef's value are
    not recorded. RREF_FORK_REQUEST, RREF_CHILD_ACCEPT, RREF_USER_DELETE and CLEANUP_AUTOGRAD_CONTEXT_REQ change only
    what other roles keep, and for how long, which no call shows.
    """
    return {number: text for number, (_, text) in _proofs(plan, timeline).items()}


def unseen(plan: Plan, timeline: Timeline) -> dict[int, bool]:
    """Tell for each message fault without evidence whether no recorded call could have shown its effect."""
    without = [number for number, text in evidence(plan, timeline).items() if text is None]
    return {number: not _shows(plan, plan.faults[number]) for number in without}


def _shows(plan: Plan, fault: Fault) -> bool:
    """Whether a recorded call shows the fault if it has an effect."""
    via = _CALLS.get(str(fault.message))
    return via is not None and (fault.kind == "Delay" or via == "rpc" or _alone(plan))


def _alone(plan: Plan) -> bool:
    """Whether no other fault of the plan can prevent the creation of an RRef."""
    return not plan.at("process") and not plan.at("network")


def calls_hit(plan: Plan, timeline: Timeline) -> dict[int, list[Event]]:
    """Return for each message fault the ends of the calls by which `evidence` proves it, of all lives, by time."""
    return {number: calls for number, (calls, _) in _proofs(plan, timeline).items()}


def begun(call: Event) -> Event:
    """Move a call's end to the time of its beginning: the end may be written after the caller has already failed."""
    return replace(call, time=call.time - float(call.details.get("seconds", 0.0)))


def _proofs(plan: Plan, timeline: Timeline) -> dict[int, tuple[list[Event], str | None]]:
    alone, ended = _alone(plan), timeline.of("ok", "fail", "info")
    by_role: dict[str | None, list[Event]] = {None: ended}
    for each in ended:
        by_role.setdefault(each.role, []).append(each)
    return {
        number: _proof(fault, _concerned(fault, by_role.get(fault.role, [])), alone)
        for number, fault in plan.at("message").items()
    }


def _concerned(fault: Fault, ended: Iterable[Event]) -> list[Event]:
    """Select the role's calls whose message this fault hits. A message to oneself can be lost, but not delayed."""
    return [
        each
        for each in ended
        if each.details.get("via") == _CALLS.get(str(fault.message), "nothing that is recorded")
        and (fault.kind == "Drop" or each.details.get("to") != each.role)
    ]


def _proof(fault: Fault, calls: list[Event], alone: bool) -> tuple[list[Event], str | None]:
    if fault.kind == "Delay":
        seconds = [float(each.details.get("seconds", 0.0)) for each in calls]
        if seconds and min(seconds) >= float(fault.seconds or 0):
            return calls, f"each of {len(seconds)} calls took {min(seconds):.3f} s or more"
        return [], None
    lost = [each for each in calls if _lost(each, alone)]
    return lost, f"{lost[0].role}: {str(lost[0].details['error']).splitlines()[0][:120]}" if lost else None


def _lost(call: Event, alone: bool) -> bool:
    error = str(call.details.get("error", ""))
    # `info`: the RRef may exist. Arguments that cannot be sent are a `fail`, and may have an error without a text.
    textless = error == TEXTLESS and call.details.get("via") == "remote" and call.event == "info"
    return LOST in error or UNREADABLE in error or textless or (alone and NOT_MADE in error)


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
    return fault.place in ("process", "network") or counted


def _often_enough(run: Run, fault: Fault, count: int, first: float) -> bool:
    """Whether a fault fired often enough: once in all lives of a role, unless it says ``lives=every``. Lives that
    begin before it has fired (``first``), as in worlds that run at the same time, do not know of each other."""
    if not _once(fault):
        return count >= 1
    roles = {fault.moment.role} if fault.moment else set(fault.roles or [fault.role])
    known = [event.role for event in run.timeline.of("start") if fault.lives == "every" or event.time <= first]
    return 1 <= count <= max(1, *(known.count(str(role)) for role in roles))


def _wanted(fault: Fault) -> str:
    return "1" if _once(fault) else "at least 1"
