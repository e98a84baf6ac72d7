"""Prove from the ledgers alone that the faults of a plan fired, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
_CALLS = {"PYTHON_CALL": "rpc", "PYTHON_REMOTE_CALL": "remote"}

# For each fault of messages, by its number: the ends of the calls that prove it, and how they do; None: no proof found.
Proofs = Mapping[int, tuple[Sequence[Event], str | None]]


def proofs_of(plan: Plan, timeline: Timeline) -> Proofs:
    """Return for each message fault the ends of calls, of all lives and by time, that show an effect, and how.

    A call's ``ok``, ``fail`` or ``info`` has ``via`` (``rpc``: `rpc_sync` and `rpc_async`; ``remote``), the ``seconds``
    that the caller waited, and the ``error``'s text. A Delay is proven if each such call took at least as long, so
    give it more seconds than a healthy call needs. Calls of TorchScript functions are not recorded, and the record
    of a fetch does not tell by which message it went. RREF_FORK_REQUEST, RREF_CHILD_ACCEPT, RREF_USER_DELETE and
    CLEANUP_AUTOGRAD_CONTEXT_REQ change only what other roles keep, and for how long, which no call shows.
    """
    faults = plan.at("message")
    ended = timeline.of("ok", "fail", "info") if faults else []
    by_role: dict[str | None, list[Event]] = {None: ended}
    for each in ended:
        by_role.setdefault(each.role, []).append(each)
    found = {}
    for number, fault in faults.items():
        via = _CALLS.get(str(fault.message), "nothing that is recorded")
        calls = [each for each in by_role.get(fault.role, []) if each.details.get("via") == via]
        found[number] = _delayed(fault, calls) if fault.kind == "Delay" else _dropped(calls, _alone(plan))
    return found


def _delayed(fault: Fault, calls: Sequence[Event]) -> tuple[Sequence[Event], str | None]:
    calls = [each for each in calls if each.details.get("to") != each.role]  # one to oneself cannot be delayed
    seconds = [float(each.details.get("seconds", 0.0)) for each in calls]
    if seconds and min(seconds) >= float(fault.seconds or 0):
        return calls, f"each of {len(seconds)} calls took {min(seconds):.3f} s or more"
    return [], None


def _dropped(calls: Sequence[Event], alone: bool) -> tuple[Sequence[Event], str | None]:
    lost = [each for each in calls if _lost(each, alone)]
    return lost, f"{lost[0].role}: {str(lost[0].details['error']).splitlines()[0][:120]}" if lost else None


def _lost(call: Event, alone: bool) -> bool:
    error = str(call.details.get("error", ""))
    # `info`: the RRef may exist. Arguments that cannot be sent are a `fail`, and may have an error without a text.
    textless = error == TEXTLESS and call.details.get("via") == "remote" and call.event == "info"
    return LOST in error or UNREADABLE in error or textless or (alone and NOT_MADE in error)


def unseen(plan: Plan, timeline: Timeline) -> dict[int, bool]:
    """Tell for each message fault without evidence whether no recorded call could have shown its effect."""
    without = [number for number, (_, text) in proofs_of(plan, timeline).items() if text is None]
    return {number: not _shows(plan.faults[number], _alone(plan)) for number in without}


def _shows(fault: Fault, alone: bool) -> bool:
    """Whether a recorded call shows the fault if it has an effect."""
    via = _CALLS.get(str(fault.message))
    return via == "rpc" or (via == "remote" and (fault.kind == "Delay" or alone))


def _alone(plan: Plan) -> bool:
    """Whether no other fault of the plan can prevent the creation of an RRef."""
    return not plan.at("process") and not plan.at("network")


def begun(call: Event) -> Event:
    """Move a call's end to the time of its beginning: the end may be written after the caller has already failed."""
    return replace(call, time=call.time - float(call.details.get("seconds", 0.0)))


# Whether it holds (None: unknown), and what was seen.
Proof = tuple[bool | None, str]


def firings(run: Run) -> list[Event]:
    """Return the firings of the plan's own faults."""
    faults = range(len(run.plan.faults))
    return [event for event in run.timeline.of("fired") if event.details.get("fault") in faults]


def first_effects(run: Run, proofs: Proofs) -> dict[int, Event | None]:
    """Find the event of each fault's first known effect; None: no event shows one.

    For a fault of a message it is the beginning of the first call that it hit, as that call's end tells. For an
    `Order` it is the first call that it may hold back: an `Order` fires only when its last call is done, and never if
    the calls do not meet.
    """
    found: dict[int, Event | None] = dict.fromkeys(range(len(run.plan.faults)))
    found.update((number, begun(hit[0])) for number, (hit, _) in proofs.items() if hit)
    for event in reversed(firings(run)):
        found[event.details["fault"]] = event
    orders = {number for number, fault in enumerate(run.plan.faults) if fault.traits.one_for_all}
    for event in reversed(run.timeline.of("invoke")):
        found.update(dict.fromkeys(orders.intersection(event.details.get("faults", ())), event))
    return found


def fired(run: Run, proofs: Proofs) -> Proof:
    """Every fault of the plan fired, as often as it says."""
    counts = Counter(event.details["fault"] for event in _completed(run))
    first = {event.details["fault"]: event.time for event in reversed(firings(run))}
    reasons, hits = Reasons(run), _hits(run)
    wrong, unproven = [], []
    for number, fault in enumerate(run.plan.faults):
        if fault.place == "message":
            unproven += [str(fault)] if proofs[number][1] is None else []
        elif not _often_enough(run, fault, counts[number], first.get(number, 0.0)):
            wrong.append(f"{fault} fired {counts[number]} times, wanted {_wanted(fault)}{reasons.of(number, fault)}")
        elif hits.get(number, counts[number]) != counts[number]:
            wrong.append(f"{fault} fired {counts[number]} times, wanted {hits[number]}: the calls that it hit")
    if wrong:
        return False, "; ".join(wrong)
    if unproven:
        return None, f"{', '.join(unproven)}: left no evidence"
    return True, f"{len(run.plan.faults)} of {len(run.plan.faults)} faults"


def _twice(run: Run) -> set[int]:
    return {number for number, fault in enumerate(run.plan.faults) if fault.traits.unfinished}


def unended(run: Run) -> bool:
    """Whether a call that began again has not ended yet."""
    twice = _twice(run)
    again = (each for each in run.timeline.of("fired", "effective") if each.details.get("fault") in twice)
    told = Counter(each.event for each in again)
    return told["fired"] > told["effective"]


def _completed(run: Run) -> Iterator[Event]:
    """Yield the firings that prove a fault: none that failed then. A `Duplicate` fires when a call begins again: it is
    proven at the end."""
    twice = _twice(run)
    failed = {_victim(event) for event in run.timeline.of("failed")}
    yield from (event for event in firings(run) if event.details["fault"] not in twice and _victim(event) not in failed)
    yield from (event for event in run.timeline.of("effective") if event.details.get("fault") in twice)


def _victim(event: Event) -> tuple[object, ...]:
    """Identify what a fault has hit, of all that one process tells of it."""
    return event.process, event.life, event.details.get("fault"), event.details.get("caller"), *event.call


def repeated(run: Run) -> Iterator[str]:
    """Yield a line for each fault that fired, or may fire, more than once, with the number of lives whose calls or
    moments it hit, if these are several."""
    every = firings(run)
    for number, fault in enumerate(run.plan.faults):
        fired = [event for event in every if event.details["fault"] == number]
        count, most = len(fired), fault.traits.most(fault) or 1
        if count > 1 or (count and most > 1):
            made = [event for event in run.timeline.of("invoke") if number in event.details.get("faults", ())]
            lives = len({(event.role, event.process, event.life) for event in made or fired})
            more = f" of {most}" * (most > 1) if lives == 1 else ""
            yield f"{fault} fired {count}{more} times{f', in {lives} lives' * (lives > 1)}"


def _hits(run: Run) -> dict[int, int]:
    """Count the calls that callers say a fault hit, if each must have arrived: no other fault, and no call that failed.

    A call without an end, as of a role that was killed, may not have arrived either.
    """
    calls, timeline = run.plan.at("call"), run.timeline
    if len(run.plan.faults) != 1 or not calls:
        return {}
    ((number, fault),) = calls.items()
    hit = [event for event in timeline.of("invoke") if number in event.details.get("faults", ())]
    answered = {event.made for event in timeline.of("ok")}
    if fault.traits.one_for_all or any(event.made not in answered for event in hit):
        return {}
    count = len(hit) - sum(event.details.get("fault") == number for event in timeline.of("failed"))  # such as no tensor
    return {number: count} if count else {}


def _often_enough(run: Run, fault: Fault, count: int, first: float) -> bool:
    """Whether a fault fired often enough: once in all lives of a role, unless it says ``lives=every``. Lives that
    begin before it has fired (``first``), as in worlds that run at the same time, do not know of each other."""
    most = fault.traits.most(fault)
    if most is None:
        return count >= 1
    roles = {fault.moment.role} if fault.moment else set(fault.roles or [fault.role])
    known = [event.role for event in run.timeline.of("start") if fault.lives == "every" or event.time <= first]
    return 1 <= count <= most * max(1, *(known.count(str(role)) for role in roles))


def _wanted(fault: Fault) -> str:
    most = fault.traits.most(fault)
    return "at least 1" if most is None else "1" if most == 1 else f"1 to {most}"
