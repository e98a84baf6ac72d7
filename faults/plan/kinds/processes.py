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


class Crash(OfProcess):
    """The role is killed or exits."""

    name = "Crash"
    needs = ("role", "at")
    may = ("how", "lives")
    harm = 110
    ends_process = True

    def refusal(self, fault: Fault) -> str | None:
        """Refuse an exit at another role's moment: only a process itself can exit."""
        moment = fault.moment
        if crash_ways.status_of(fault.how) is None or moment is None or moment.role == fault.role:
            return None
        return f"{self.name}: how={fault.how!r} needs a moment of {fault.role} itself, got at={fault.at!r}"

    def had_effect(self, fault: Fault, seen: Seen) -> bool:
        return seen.effective or seen.ended or fault.how == "term"  # a handler may end its process in any way

    def choices(self, name: str, program: Program, drawn: Mapping[str, Any]) -> Sequence[Any]:
        if name != "how":
            return super().choices(name, program, drawn)
        itself = Moment.parse(drawn["at"]).role == drawn["role"]
        return [how for how in crash_ways.DRAWN if itself or crash_ways.status_of(how) is None]


class Pause(OfProcess):
    """The role is stopped, and goes on later."""

    name = "Pause"
    harm = 40

    def loses_nothing(self, fault: Fault) -> bool:
        return True


class Hold(OfProcess):
    """The role's GIL is held."""

    name = "Hold"
    harm = 50

    def loses_nothing(self, fault: Fault) -> bool:
        return True

    def had_effect(self, fault: Fault, seen: Seen) -> bool:
        return seen.effective or seen.ended  # a process that ends while its GIL is held cannot record the effect


KINDS: tuple[Kind, ...] = (Crash(), Pause(), Hold())
