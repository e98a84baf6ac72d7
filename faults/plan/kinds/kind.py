"""What a kind of fault is: all that reading, drawing, sweeping and judging ask about it. No torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from faults.plan import fields
from faults.plan.places import PlanError
from faults.plan.possible_faults import Program

if TYPE_CHECKING:
    from faults.plan.plan import Fault


@dataclass(frozen=True)
class Seen:
    """What the ledgers tell of one firing.

    ``effective``: whether an effect of the fault is recorded; ``calls``: how each call ended that the fault hit:
    ``value``, ``arrived`` (of a `remote`, whose value is fetched later), ``failed``, or empty if it did not end;
    ``ended``: whether the process that it hit has not returned.
    """

    effective: bool
    calls: Collection[str] = ()
    ended: bool = False


class Kind:
    """A kind of fault at one place. Each class has one object, in the ``KINDS`` of its file.

    Attributes:
        name: the first word of a fault's text. Two classes have one name if it exists at two places.
        place: ``call``, ``message``, ``process`` or ``network``.
        mark: the field by which a fault of this name is known to be at this place.
        needs, may: the fields that a fault has to have, and those that it may have.
        words: further words that a field takes, besides those of `fields.WORDS`.
        did: what a firing has done, as a sentence of `faults.judge.story` says it, which knows the words {call},
            {function}, {callee}, {side}, {role}, {peer} and {message}.
        harm: draws shrink towards kinds with less. Of two with the same harm, the first of the registry.
        asked: why it is drawn only if it is named; empty if it always is.
        drawn: the values that are drawn for a field, the smallest first.
        gentle: it loses nothing.
        costs_no_time: after this kind alone any failure is needless, even a time-out.
        changes_data: after it data may be to blame for an error.
        ends_process, stops_process: it ends, or stops, the process that it hits.
        ends_unseen: a process that ends meanwhile cannot record the effect.
        one_for_each_role: a plan has at most one for each role.
        one_for_all: several calls together fire it once, when the last of them is done.
        unfinished: why it has not fired although it began. If there is such a reason, ``effective`` proves that it
            fired; otherwise ``fired`` does.
        without_effect: what was seen instead of its effect.
    """

    name: ClassVar[str]
    place: ClassVar[str]
    mark: ClassVar[str] = "role"
    needs: ClassVar[tuple[str, ...]]
    may: ClassVar[tuple[str, ...]] = ()
    words: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    did: ClassVar[str]
    harm: ClassVar[int]
    asked: ClassVar[str] = ""
    drawn: ClassVar[Mapping[str, Sequence[Any]]] = {}
    gentle: ClassVar[bool] = False
    costs_no_time: ClassVar[bool] = False
    changes_data: ClassVar[bool] = False
    ends_process: ClassVar[bool] = False
    stops_process: ClassVar[bool] = False
    ends_unseen: ClassVar[bool] = False
    one_for_each_role: ClassVar[bool] = False
    one_for_all: ClassVar[bool] = False
    unfinished: ClassVar[str] = ""
    without_effect: ClassVar[str] = "no role saw an effect"

    @property
    def fields(self) -> tuple[str, ...]:
        return (*self.needs, *self.may)

    def words_of(self, name: str) -> tuple[str, ...]:
        """Return the words that this field takes; none if it takes other values."""
        return (*fields.WORDS.get(name, ()), *self.words.get(name, ()))

    def check(self, given: Mapping[str, Any]) -> None:
        """Raises PlanError: a field is missing, or this kind does not have it."""
        for name in given:
            if name not in self.fields:
                wanted = f"wanted some of {', '.join(self.fields)}"
                raise PlanError(f"{self.name} at a {self.place} has no field {name!r}, {wanted}")
        for name in self.needs:
            if name not in given:
                raise PlanError(f"{self.name} at a {self.place} needs {name!r}, got {', '.join(given) or 'nothing'}")

    def refusal(self, fault: Fault) -> str | None:
        """Say in one line why these fields, each of which is possible, do not go together; None if they do."""
        return None

    def loses_nothing(self, fault: Fault) -> bool:
        """Whether a program can go on as if the fault had not been, as soon as it is over."""
        return self.gentle

    def lasts(self, fault: Fault) -> float:
        """Return the seconds that it lasts, and those in which roles wait for packets that are late by it."""
        return fault.seconds or 0.0

    def holds_reply(self, fault: Fault) -> bool:
        """Whether the caller is answered long after the call has executed, or never."""
        return False

    def as_fired(self, fault: Fault, nth: int, caller: str, life: str | None) -> dict[str, Any]:
        """Return the fields by which the fault hits exactly this call of this caller, in this life."""
        return {"every": False, "chance_percent": None, "nth": nth, "role": caller, "lives": life}

    def had_effect(self, fault: Fault, seen: Seen) -> bool:
        """Whether a firing had an effect. True if the ledgers cannot tell."""
        return seen.effective or (self.ends_unseen and seen.ended)

    def seen_instead(self, details: Mapping[str, Any]) -> str:
        """Say what was seen instead of the effect of a firing with these details."""
        return self.without_effect

    def most(self, fault: Fault) -> int | None:
        """Return how often it fires in one life at most; None: nobody knows how many calls there are."""
        return 1

    def is_possible(self, program: Program) -> bool:
        """Whether such a fault has anything to hit in this program."""
        return bool(program.roles)

    def choices(self, name: str, program: Program, drawn: Mapping[str, Any]) -> Sequence[Any]:
        """Return one field's values, the smallest first; None stands for a field that is left out. ``drawn``: the
        fields before it."""
        if name in self.drawn:
            return self.drawn[name]
        if words := self.words_of(name):
            return words
        return {"role": program.roles, "at": program.moments, "seconds": program.seconds}[name]
