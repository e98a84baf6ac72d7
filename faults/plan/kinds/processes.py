"""Faults of processes: what each kind does to a role at a moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from faults.plan import crash_ways
from faults.plan.kinds.kind import Kind, Seen
from faults.plan.places import Moment
from faults.plan.possible_faults import Program

if TYPE_CHECKING:
    from faults.plan.plan import Fault


class OfProcess(Kind):
    """A kind of fault that hits the process of a role."""

    place = "process"
    mark = "at"
    needs: ClassVar[tuple[str, ...]] = ("role", "at", "seconds")
    may: ClassVar[tuple[str, ...]] = ("lives",)


def _is_of(at: str, role: str) -> bool:
    return Moment.parse(at).role == role


def _refusal_elsewhere(fault: Fault, what: str) -> str | None:
    """Refuse a moment of another role for what only a process itself can do; None if it is the role's own."""
    if _is_of(str(fault.at), str(fault.role)):
        return None
    return f"{what} needs a moment of {fault.role} itself, got at={fault.at!r}"


class Crash(OfProcess):
    """The role is killed or exits."""

    name = "Crash"
    needs = ("role", "at")
    may = ("how", "lives")
    did = "the plan ended {role}"
    harm = 110
    ends_process = True
    ends_unseen = True

    def refusal(self, fault: Fault) -> str | None:
        exits = crash_ways.status_of(fault.how) is not None
        return _refusal_elsewhere(fault, f"{self.name}: how={fault.how!r}") if exits else None

    def had_effect(self, fault: Fault, seen: Seen) -> bool:
        return super().had_effect(fault, seen) or fault.how == "term"  # a handler may end its process in any way

    def choices(self, name: str, program: Program, drawn: Mapping[str, Any]) -> Sequence[Any]:
        if name != "how":
            return super().choices(name, program, drawn)
        itself = _is_of(drawn["at"], drawn["role"])
        return [how for how in crash_ways.DRAWN if itself or crash_ways.status_of(how) is None]


class Pause(OfProcess):
    """The role is stopped, and goes on later."""

    name = "Pause"
    did = "{role} was stopped"
    stops_process = True
    harm = 40
    gentle = True


class Hold(OfProcess):
    """The role holds its own GIL."""

    name = "Hold"
    did = "{role}'s Python was stopped"
    stops_process = True
    harm = 50
    gentle = True
    ends_unseen = True

    def refusal(self, fault: Fault) -> str | None:
        return _refusal_elsewhere(fault, self.name)

    def choices(self, name: str, program: Program, drawn: Mapping[str, Any]) -> Sequence[Any]:
        found = super().choices(name, program, drawn)
        return [at for at in found if _is_of(at, drawn["role"])] if name == "at" else found


KINDS: tuple[Kind, ...] = (Crash(), Pause(), Hold())
