"""Cases: everything that determines a run, as frozen plain data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Self

from reference.system.json_objects import NoObject, json_object
from reference.system.text import OneLine, shown

# The largest integer of a case in bits. A case is written as JSON, and Python writes at most 4300 digits.
BITS = 1024
# Fields that say how and where a case computes; `listed` puts them last.
_LAST = ("dtype", "arithmetic", "device", "transfer")


class CaseError(OneLine, ValueError):
    """A case has an unknown or impossible field. One line says what was got and what was wanted."""


def number_field(
    default: int | float,
    help: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    scales: bool = False,
    result: bool = True,
) -> Any:
    """Make a numeric field of a case; ``help`` says its unit. The default's type is the field's type.

    ``scales``: the field counts roles, so a launcher with a fixed number of processes can set it.
    ``result``: False if the field decides only where or how fast a case runs, not its result.
    """
    limits = {"at_least": at_least, "at_most": at_most, "scales": scales, "result": result}
    return field(default=default, metadata={"help": help, "type": type(default), **limits})


def choice_field(default: str, *others: str, help: str, result: bool = True) -> Any:
    """Make a field of a case that takes one of these words; ``result`` as in `number_field`."""
    metadata = {"help": help, "type": str, "options": (default, *others), "result": result}
    return field(default=default, metadata=metadata)


def text_field(default: str, help: str, *, result: bool = True) -> Any:
    """Make a field of a case that takes any text, which the case or the run checks; ``result`` as in `number_field`."""
    return field(default=default, metadata={"help": help, "type": str, "result": result})


def flag_field(default: bool, help: str) -> Any:
    """Make a field of a case that is true or false."""
    return field(default=default, metadata={"help": help, "type": bool})


@dataclass(frozen=True)
class Case:
    """The fields that every tutorial's case has. Subclasses add more with `number_field` and the like.

    Raises:
        CaseError: a field has the wrong type or an impossible value.
    """

    seed: int = number_field(0, "seed of every random draw", at_least=0, at_most=2**63 - 1)
    steps: int = number_field(1, "number of training steps", at_least=1)
    record: str = choice_field(
        "every",
        "ends",
        help="every: gradients and parameters of every step; ends: only the first and the last parameters",
    )

    timeout: float = number_field(
        60.0, "seconds that a role waits for its peers before it gives up", at_least=0.001, at_most=1e6, result=False
    )

    # The values of the fields that `exact` is not given: a small case in which every operation is exact.
    EXACT: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def exact(cls, **given: Any) -> Self:
        """Make a case of exact arithmetic: all fields that are not given get values that fit.

        Raises:
            CaseError: a given value does not fit, or this tutorial has no exact arithmetic.
        """
        if not cls.EXACT:
            raise CaseError(f"{cls.tutorial()}: no exact arithmetic, wanted one of the tutorials that have it")
        return cls(**{**cls.EXACT, **given, "arithmetic": "exact"})

    def __post_init__(self) -> None:
        for item in fields(self):
            object.__setattr__(self, item.name, self._checked(item, getattr(self, item.name)))
        self.validate()

    def validate(self) -> None:
        """Refuse combinations of fields that cannot run. A tutorial with such combinations overrides this."""

    def require(self, holds: bool, name: str, wanted: str) -> None:
        """Refuse this case unless ``holds``; the error names the field, what was wanted and what was got."""
        if not holds:
            raise CaseError(f"{self.tutorial()}: {name} must be {wanted}, got {shown(getattr(self, name))}")

    @property
    def is_exact(self) -> bool:
        """Whether every order of sums gives the same bits."""
        return getattr(self, "arithmetic", None) == "exact"

    def same_result_as(self, other: Case) -> bool:
        """Whether both cases have one result: they may differ in fields that decide only where or how fast they run."""
        return type(self) is type(other) and not self.differing(other)

    def differing(self, other: Self) -> list[str]:
        """Name the fields that decide the result and differ, in the order in which users see them."""
        own, others = self.deciding(), other.deciding()
        return [name for name in own if own[name] != others[name]]

    def on_cpu(self) -> Self:
        """Return the same case with everything on the CPU."""
        placed: dict[str, Any] = {name: "cpu" for name in ("device", "transfer") if hasattr(self, name)}
        return replace(self, **placed)

    def deciding(self) -> dict[str, Any]:
        """The fields that decide the result, in the order in which users see them."""
        names = [item.name for item in listed(type(self)) if item.metadata.get("result", True)]
        return {name: getattr(self, name) for name in names}

    @classmethod
    def tutorial(cls) -> str:
        """The tutorial's name: the stem of its module."""
        return cls.__module__.rpartition(".")[2]

    def _checked(self, item: Field[Any], value: object) -> object:
        if "type" not in item.metadata:
            raise CaseError(f"{self.tutorial()}: {item.name} is a plain field, wanted one of number_field or the like")
        wanted = item.metadata["type"]
        if wanted is float and type(value) is int:
            value = float(value) if abs(value) < 2**1023 else math.inf
        if type(value) is not wanted:
            kinds = {int: "an integer", float: "a number", str: "a word", bool: "true or false"}
            self.require(False, item.name, kinds[wanted])
        if wanted in (str, bool):
            options = item.metadata.get("options", (value,))
            self.require(value in options, item.name, " or ".join(map(repr, options)))
            return value
        assert isinstance(value, int | float)
        low, high = item.metadata["at_least"], item.metadata["at_most"]
        self.require(wanted is int or math.isfinite(value), item.name, "finite")
        self.require(low is None or value >= low, item.name, f"at least {low}")
        self.require(high is None or value <= high, item.name, f"at most {high}")
        self.require(int(value).bit_length() <= BITS, item.name, f"a number of at most {BITS} bits")
        return value + wanted(0)  # turns -0.0 into 0.0, which is equal but written differently

    def to_json(self) -> str:
        """Write the case in one line with sorted keys, so that the same case always gives the same bytes."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the case that `to_json` wrote; missing fields take their defaults.

        Raises:
            CaseError: the text is no JSON object, or has an unknown field or an impossible value.
        """
        try:
            values = json_object(text, "a case")
        except NoObject as error:
            raise CaseError(f"{cls.tutorial()}: {error}") from error
        return cls.of(values)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Make a case of the values of fields by name.

        Raises:
            CaseError: a field is unknown, or its value is impossible.
        """
        known = [item.name for item in listed(cls)]
        for name in values:
            if name not in known:
                raise CaseError(f"{cls.tutorial()}: unknown field {shown(name)}, wanted one of {', '.join(known)}")
        return cls(**values)


def listed(kind: type[Case]) -> list[Field[Any]]:
    """The fields in the order in which users see them: those in `_LAST` come after the tutorial's own.

    `dataclasses.fields` has them first, because it begins with the fields of the bases.
    """
    return sorted(fields(kind), key=lambda item: item.name in _LAST)


def power_of_two(value: float) -> bool:
    """Whether multiplying by ``value`` is exact in binary (zero included)."""
    return value == 0 or abs(math.frexp(value)[0]) == 0.5
