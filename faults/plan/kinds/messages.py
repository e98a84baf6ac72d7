"""Faults of RPC's own messages, by torch's faulty agent. It reports nothing: `faults.judge.proof` proves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from faults.plan.kinds.kind import Kind
from faults.plan.possible_faults import Program


class OfMessage(Kind):
    """A kind of fault that hits all messages of one type of one sender, or of all."""

    place = "message"
    mark = "message"
    may = ("role",)

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


class Drop(OfMessage):
    """The send fails, and the sender notices."""

    name = "Drop"
    needs = ("message", "times")
    did = "messages {message} of {role} were lost"
    harm = 80
    drawn: ClassVar = {"times": (1, 2, 3)}


KINDS: tuple[OfMessage, ...] = (Delay(), Drop())
