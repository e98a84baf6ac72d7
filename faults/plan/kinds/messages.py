"""Faults of RPC's own messages, by torch's faulty agent. It reports nothing, so recorded calls have to prove them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from faults.plan.kinds.kind import Kind
from faults.plan.possible_faults import Program

if TYPE_CHECKING:
    from faults.plan.plan import Fault

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


class Ended(Protocol):
    """The end of a recorded call, as a ledger has it."""

    @property
    def event(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def details(self) -> Mapping[str, Any]: ...


_Call = TypeVar("_Call", bound=Ended)


class OfMessage(Kind):
    """A kind of fault that hits all messages of one type of one sender, or of all.

    ``alone``, in its methods: whether no other fault of the plan can prevent the creation of an RRef.
    """

    place = "message"
    mark = "message"
    may = ("role",)

    def shows(self, fault: Fault, alone: bool) -> bool:
        """Whether a recorded call shows the fault if it has an effect."""
        return str(fault.message) in _CALLS

    def hits(self, fault: Fault, call: Ended) -> bool:
        """Whether it hits the message of this call of the sender."""
        return call.details.get("via") == _CALLS.get(str(fault.message), "nothing that is recorded")

    def proof(self, fault: Fault, calls: Sequence[_Call], alone: bool) -> tuple[Sequence[_Call], str | None]:
        """Return those of the calls whose message it hits that prove an effect, and how they do; None: no proof."""
        raise NotImplementedError

    def is_possible(self, program: Program) -> bool:
        return True

    def choices(self, name: str, program: Program, drawn: Mapping[str, Any]) -> Sequence[Any]:
        return [*program.roles, None] if name == "role" else super().choices(name, program, drawn)


class Delay(OfMessage):
    """The sender blocks before it sends."""

    name = "Delay"
    needs = ("message", "seconds")
    did = "messages {message} of {role} were late"
    harm = 0
    gentle = True

    def hits(self, fault: Fault, call: Ended) -> bool:
        return super().hits(fault, call) and call.details.get("to") != call.role  # one to oneself cannot be delayed

    def proof(self, fault: Fault, calls: Sequence[_Call], alone: bool) -> tuple[Sequence[_Call], str | None]:
        seconds = [float(each.details.get("seconds", 0.0)) for each in calls]
        if seconds and min(seconds) >= float(fault.seconds or 0):
            return calls, f"each of {len(seconds)} calls took {min(seconds):.3f} s or more"
        return [], None


class Drop(OfMessage):
    """The send fails, and the sender notices."""

    name = "Drop"
    needs = ("message", "times")
    did = "messages {message} of {role} were lost"
    harm = 80
    drawn: ClassVar = {"times": (1, 2, 3)}

    def shows(self, fault: Fault, alone: bool) -> bool:
        return super().shows(fault, alone) and (alone or _CALLS[str(fault.message)] == "rpc")

    def proof(self, fault: Fault, calls: Sequence[_Call], alone: bool) -> tuple[Sequence[_Call], str | None]:
        lost = [each for each in calls if _lost(each, alone)]
        return lost, f"{lost[0].role}: {str(lost[0].details['error']).splitlines()[0][:120]}" if lost else None


def _lost(call: Ended, alone: bool) -> bool:
    error = str(call.details.get("error", ""))
    # `info`: the RRef may exist. Arguments that cannot be sent are a `fail`, and may have an error without a text.
    textless = error == TEXTLESS and call.details.get("via") == "remote" and call.event == "info"
    return LOST in error or UNREADABLE in error or textless or (alone and NOT_MADE in error)


KINDS: tuple[OfMessage, ...] = (Delay(), Drop())
