"""What the suite requires of an implementation: permanent ids, and a grade each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reference.trace.case import Case


@dataclass(frozen=True)
class Requirement:
    """``grade``: MUST (a case that misses it is judged ``differs``), SHOULD (the same, in natural cases), or INFO."""

    grade: str
    text: str


REQUIREMENTS = {
    "TENSORS": Requirement("MUST", "every listed tensor is there, with its shape and dtype, and no other one"),
    "EXACT": Requirement("MUST", "in an exact case every number is the reference's; -0.0 and 0.0 are one number"),
    "BOUND": Requirement("SHOULD", "in a natural case every tensor is within the bound of correct programs"),
    "VALUES": Requirement("MUST", "without training, every number is the reference's"),
    "BITS": Requirement("INFO", "in a natural case the bits are the reference's"),
}


def requirements_of(case: Case) -> list[str]:
    """The ids of the requirements that a case shows."""
    if case.is_exact:
        return ["TENSORS", "EXACT"]
    return ["TENSORS", "BOUND", "BITS"] if hasattr(case, "dtype") else ["TENSORS", "VALUES"]


# What each verdict says of the requirements of a case, and of single ones of them.
_STATES = {"equal": "met", "within bound": "met", "differs": "missed"}
_SINGLE = {
    "within bound": {"BITS": "missed"},
    "differs": {"TENSORS": "met"},
    "unknown": {"TENSORS": "met"},
    "malformed": {"TENSORS": "missed"},
}


def met(names: Sequence[str], verdict: str) -> dict[str, str]:
    """Whether a case with this verdict meets each of these requirements: met, missed, or not judged."""
    state, single = _STATES.get(verdict, "not judged"), _SINGLE.get(verdict, {})
    return {name: single.get(name, state) for name in names}
