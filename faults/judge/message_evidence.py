"""Find proof in recorded calls that a fault of messages had an effect, because torch's faulty agent reports nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from faults.ledger.ledger import Event, Timeline
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
