"""Faults of the network: what each kind does to the packets of a role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from faults.plan.kinds.kind import Kind
from faults.plan.possible_faults import Program

if TYPE_CHECKING:
    from faults.plan.plan import Fault

# How many late packets of a role the others may have to wait for. A role may learn of an end only by such a packet,
# once for each timeout. The start of RPC alone waits for 14 of them, one after another (measured with two roles).
_LATE, _LATE_AT_START = 2, 20


class OfNetwork(Kind):
    """A kind of fault that hits the packets between a role and its peer, or all roles."""

    place = "network"
    may: ClassVar[tuple[str, ...]] = ("peer", "at", "seconds")
    without_effect = "hit no packet"

    def refusal(self, fault: Fault) -> str | None:
        if fault.peer is None or fault.peer != fault.role:
            return None
        return f"{self.name}: 'peer' must be another role than 'role', got {fault.peer!r} twice"

    def choices(self, name: str, program: Program, drawn: Mapping[str, Any]) -> Sequence[Any]:
        if name == "peer":
            return [*(role for role in program.roles if role != drawn["role"]), None]
        found = super().choices(name, program, drawn)
        # Without a moment a fault begins at the start, so that choice is the first. Without seconds it does not heal,
        # so that choice is the last.
        return [None, *found] if name == "at" else [*found, None] if name == "seconds" else found


class _Healing(OfNetwork):
    """A kind that loses nothing if it heals, because TCP sends again."""

    def loses_nothing(self, fault: Fault) -> bool:
        return fault.seconds is not None


class Partition(_Healing):
    """Packets are dropped, one way or both."""

    name = "Partition"
    needs = ("role", "direction")
    did = "{role} was cut off from {peer}"
    harm = 100


class Reset(OfNetwork):
    """Connections are reset."""

    name = "Reset"
    needs = ("role",)
    did = "connections of {role} were reset"
    harm = 90


class Lossy(_Healing):
    """A share of the packets is dropped."""

    name = "Lossy"
    needs = ("role", "direction", "percent")
    did = "packets of {role} were lost"
    harm = 30
    drawn: ClassVar = {"percent": (1.0, 10.0, 50.0, 100.0)}


class Slow(OfNetwork):
    """The role can send only so many kbit/s; its packets arrive late, or in another order."""

    name = "Slow"
    needs = ("role",)
    may = ("kbit_per_second", "latency_ms", "jitter_ms", "reorder_percent", "at", "seconds")
    did = "the network of {role} was slow"
    harm = 20
    gentle = True
    one_for_each_role = True
    drawn: ClassVar = {
        "kbit_per_second": (100_000, 10_000, 1_000),
        "latency_ms": (1.0, 10.0, 100.0),
        "reorder_percent": (None, 1.0, 25.0),
    }
    # What it can do to packets, of which it needs one, and what netem does only to packets that it delays.
    _WAYS = ("kbit_per_second", "latency_ms")
    _OF_LATENCY = ("jitter_ms", "reorder_percent")

    def refusal(self, fault: Fault) -> str | None:
        given = fault.to_dict()
        names = ", ".join(name for name in given if name != "kind")
        if alone := [name for name in self._OF_LATENCY if name in given and "latency_ms" not in given]:
            return f"{self.name}: {alone[0]!r} needs 'latency_ms', got {names}"
        if not any(name in given for name in self._WAYS):
            return f"{self.name} needs {' or '.join(map(repr, self._WAYS))}, got {names}"
        latency, jitter = fault.latency_ms, fault.jitter_ms
        if latency is not None and jitter is not None and jitter > latency:
            return f"{self.name}: 'jitter_ms' must be at most 'latency_ms', got {jitter!r} and {latency!r}"
        return None

    def lasts(self, fault: Fault) -> float:
        latency = ((fault.latency_ms or 0.0) + (fault.jitter_ms or 0.0)) / 1000
        return super().lasts(fault) + (_LATE_AT_START if fault.at is None else _LATE) * latency

    def choices(self, name: str, program: Program, drawn: Mapping[str, Any]) -> Sequence[Any]:
        """Return the values of a rate, a latency, or both; of the others only with a latency."""
        found = super().choices(name, program, drawn) if name != "jitter_ms" else ()
        if name == "kbit_per_second":
            return [*found, None] if program.latency else found
        if name == "latency_ms":
            without = [None] if drawn["kbit_per_second"] is not None else []
            return [*without, *found] if program.latency else [None]
        if name not in self._OF_LATENCY:
            return found
        latency = drawn["latency_ms"]
        if latency is None:
            return [None]
        return [None, latency / 10, latency] if name == "jitter_ms" else found


KINDS: tuple[Kind, ...] = (Partition(), Reset(), Lossy(), Slow())
