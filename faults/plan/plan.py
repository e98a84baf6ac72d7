"""Faults and plans: what goes wrong in a run, as frozen plain data. Imports no torch.

    Plan.parse("seed=7; Delay site=shop:Till.pay role=till1 nth=2 side=reply seconds=0.5; Crash role=ps at=step:3@ps")

A plan has two exact forms: JSON, which gives the same bytes for the same plan, and the text above, which a failing test
prints and which can be pasted back.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, fields
from typing import Any, Self

from faults.plan import text as words
from faults.plan.fields import FIELDS, check_value
from faults.plan.kinds import NAMED, Kind, check_name, kind_of
from faults.plan.places import Moment, PlanError, shown
from reference.system.json_objects import NoObject, json_object

__all__ = ["Fault", "Plan", "PlanError"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing that goes wrong. `fields.FIELDS` explains each field, `kinds` and docs/faults.md each kind.

    Raises:
        PlanError: an unknown kind, a field that this kind does not have or lacks, or an impossible value.
    """

    kind: str
    site: str | None = None
    message: str | None = None
    role: str | None = None
    to: str | None = None
    peer: str | None = None
    roles: tuple[str, ...] | None = None
    at: str | None = None
    nth: int | str | None = None
    every: bool = False
    chance_percent: float | None = None
    lives: str | None = None
    side: str | None = None
    when: str | None = None
    how: str | None = None
    change: str | None = None
    direction: str | None = None
    seconds: float | None = None
    percent: float | None = None
    kbit_per_second: int | None = None
    latency_ms: float | None = None
    jitter_ms: float | None = None
    reorder_percent: float | None = None
    times: int | None = None
    error: str | None = None
    text: str | None = None

    def __post_init__(self) -> None:
        given = self._given()
        kind = kind_of(self.kind, given)
        for name, value in given.items():
            object.__setattr__(self, name, check_value(self.kind, name, value, kind.words_of(name)))
        kind.check(given)
        if kind.place == "call":
            self._check_occurrence(given)
        if (reason := kind.refusal(self)) is not None:
            raise PlanError(reason)

    def _given(self) -> dict[str, Any]:
        """Return every given field except the kind."""
        values = {item.name: (getattr(self, item.name), item.default) for item in fields(self) if item.name != "kind"}
        return {name: value for name, (value, default) in values.items() if value is not default}

    def _check_occurrence(self, given: dict[str, Any]) -> None:
        chosen = [name for name in ("nth", "every", "chance_percent") if name in given]
        if len(chosen) > 1:
            raise PlanError(
                f"{self.kind}: wanted one of 'nth', 'every' and 'chance_percent', got {' and '.join(chosen)}"
            )
        if not chosen:
            object.__setattr__(self, "nth", 1)

    @property
    def traits(self) -> Kind:
        """What holds for all faults of this kind at this place."""
        return next(kind for kind in NAMED[self.kind] if getattr(self, kind.mark) is not None)

    @property
    def place(self) -> str:
        """``call``, ``message``, ``process`` or ``network``."""
        return self.traits.place

    @property
    def numbers(self) -> range | None:
        """The numbers of the calls that it hits; None if it hits every call, or each by chance, or no calls."""
        if self.nth is None:
            return None
        first, _, last = str(self.nth).partition("-")
        return range(int(first), int(last or first) + 1)

    @property
    def moment(self) -> Moment | None:
        """The moment at which it happens; None for faults of calls and messages, and for a network's fault from the
        start."""
        return None if self.at is None else Moment.parse(self.at)

    def to_dict(self) -> dict[str, Any]:
        """Return the given fields, ``kind`` first: the arguments of `Fault`."""
        return {"kind": self.kind, **self._given()}

    def __str__(self) -> str:
        """``Delay site=shop:pay nth=1 side=reply seconds=0.5``; values with spaces are quoted as for a shell."""
        given = [(name, value) for name, value in self.to_dict().items() if name != "kind"]
        return " ".join([self.kind, *(words.written(name, value) for name, value in given)])

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the fault that `str` wrote. Raises PlanError."""
        groups = words.split(text)
        if len(groups) != 1:
            raise PlanError(f"wanted one fault, got {shown(text)}")
        return cls._of(groups[0])

    @classmethod
    def _of(cls, group: list[str]) -> Self:
        check_name(group[0])
        values = words.pairs(group[1:], group[0])
        if "kind" in values:
            raise PlanError(f"{group[0]}: the 'kind' is the first word, got another one, {shown(values['kind'])}")
        return cls.from_dict({"kind": group[0], **values})

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Make the fault of these fields. Raises PlanError."""
        if not isinstance(values, dict) or "kind" not in values:
            raise PlanError(f"a fault is an object with a 'kind', got {shown(values)}")
        kind = values["kind"]
        check_name(kind)
        for name, value in values.items():
            if name not in ("kind", *FIELDS):
                raise PlanError(f"{kind}: unknown field {shown(name)}, wanted some of {', '.join(FIELDS)}")
            if value is None or value is False:  # `every` is left out, not false
                raise PlanError(f"{kind}: {name!r} must be left out or have a value, got {json.dumps(value)}")
        return cls(**values)


@dataclass(frozen=True)
class Plan:
    """An ordered tuple of faults, and the seed for faults with a chance. Raises PlanError."""

    faults: tuple[Fault, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.faults, list | tuple) or not all(isinstance(each, Fault) for each in self.faults):
            raise PlanError(f"'faults' must be a tuple of faults, got {shown(self.faults)}")
        object.__setattr__(self, "faults", tuple(self.faults))
        if type(self.seed) is not int or not 0 <= self.seed < 2**63:
            raise PlanError(f"'seed' must be an integer from 0 to 2**63 - 1, got {shown(self.seed)}")
        times = sorted({fault.times for fault in self.faults if fault.times is not None})
        if len(times) > 1:
            raise PlanError(f"'times' must be the same for all lost messages of a plan, got {times[0]} and {times[1]}")
        self._check_messages()
        alone = Counter((fault.kind, fault.role) for fault in self.faults if fault.traits.one_for_each_role)
        for (kind, role), count in alone.items():
            if count > 1:
                raise PlanError(f"'role' {role}: wanted one {kind}, got {count}")

    def _check_messages(self) -> None:
        """Refuse two faults of one message type for one role: torch's faulty agent has one delay for each."""
        given: dict[tuple[str, str | None], set[str | None]] = {}
        for fault in self.at("message").values():
            roles = given.setdefault((fault.kind, fault.message), set())
            if roles and (fault.role is None or not roles.isdisjoint({None, fault.role})):
                raise PlanError(f"'message' {fault.message}: wanted one {fault.kind} for each 'role', got two")
            roles.add(fault.role)

    def at(self, place: str) -> dict[int, Fault]:
        """Return the faults of one place, by their number in the plan."""
        return {number: fault for number, fault in enumerate(self.faults) if fault.place == place}

    def names(self, site: str) -> bool:
        """Whether a fault hits this site, or happens at one of its calls."""
        return any(fault.site == site or (fault.moment and fault.moment.site == site) for fault in self.faults)

    def to_json(self) -> str:
        """Write one line; the same plan always gives the same bytes."""
        faults = [fault.to_dict() for fault in self.faults]
        return json.dumps({"seed": self.seed, "faults": faults}, sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the plan that `to_json` wrote. Raises PlanError."""
        try:
            values = json_object(text, "a plan")
        except NoObject as error:
            raise PlanError(str(error)) from error
        for name in values:
            if name not in ("seed", "faults"):
                raise PlanError(f"unknown field {shown(name)} of a plan, wanted 'seed' and 'faults'")
        faults = values.get("faults", [])
        if not isinstance(faults, list):
            raise PlanError(f"'faults' must be a list, got {shown(faults)}")
        return cls(tuple(map(Fault.from_dict, faults)), values.get("seed", 0))

    def __str__(self) -> str:
        """Write the text form; ``seed=0`` is left out."""
        parts = [f"seed={self.seed}"] if self.seed or not self.faults else []
        return "; ".join([*parts, *map(str, self.faults)])

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the plan that `str` or `to_json` wrote. Raises PlanError."""
        if text.lstrip().startswith("{"):
            return cls.from_json(text)
        groups = words.split(text)
        head = words.pairs(groups.pop(0), "a plan") if groups and "=" in groups[0][0] else {}
        for name in head:
            if name != "seed":
                raise PlanError(f"a plan begins with 'seed' or with a fault's kind, got {shown(name)}")
        return cls(tuple(Fault._of(group) for group in groups), **head)
