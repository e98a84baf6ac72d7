"""Check the files of a run's folder by the types that their writers use, because anybody may write there."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from faults.tracebacks.error_chain import MEMBERS, PIECES, Piece, from_json
from reference.system.printable import shown

Form = Callable[[Any], bool]

# The deepest nesting of exception groups. Python prints ten levels, and each call over RPC may add its own.
DEPTH = 40


def check(values: Mapping[str, Any], forms: Mapping[str, Form]) -> None:
    """Check values against their forms. Names without a form may have any value. Raises ValueError."""
    for name, value in values.items():
        if name in forms and not forms[name](value):
            raise ValueError(f"{name!r} cannot be {shown(value)}")


def by_name(*rows: tuple[Form, str]) -> dict[str, Form]:
    """Return the form of each name, from rows of a form and the names that have it."""
    return {name: form for form, names in rows for name in names.split()}


def text(value: Any) -> bool:
    return isinstance(value, str)


def truth(value: Any) -> bool:
    return isinstance(value, bool)


def integer(value: Any) -> bool:
    return type(value) is int


def number(value: Any) -> bool:
    """Whether it can be seconds: infinity is allowed, for a program that waits forever; NaN, which compares with
    nothing, is not."""
    return type(value) in (int, float) and (abs(value) < 1e12 or value == math.inf)


def finite(value: Any) -> bool:
    return number(value) and value != math.inf


def maybe(form: Form) -> Form:
    """Allow None, too."""
    return lambda value: value is None or form(value)


def many(form: Form) -> Form:
    """Want a list of these."""
    return lambda value: isinstance(value, list) and all(map(form, value))


def some(form: Form) -> Form:
    """Want a list of at least one."""
    return lambda value: bool(value) and many(form)(value)


def named(form: Form) -> Form:
    """Want a mapping of names to these."""
    return lambda value: isinstance(value, dict) and all(map(form, value.values()))


def mapping(value: Any) -> bool:
    return isinstance(value, dict)


def causes(value: Any) -> bool:
    """Whether it can be the result of `error_chain.to_json`, or None."""
    try:
        return value is None or (isinstance(value, list) and _are_causes(from_json(value)))
    except (TypeError, LookupError, AttributeError, RecursionError):
        return False


def _are_causes(pieces: Sequence[Piece], depth: int = 0) -> bool:
    """Whether the pieces are within the limits of `causes`. Each member of a group is judged with all pieces before."""
    return len(pieces) <= PIECES and depth <= DEPTH and all(_is_cause(piece, depth) for piece in pieces)


def _is_cause(piece: Piece, depth: int) -> bool:
    members = piece.members
    return bool(piece.bases) and len(members) <= MEMBERS + 1 and all(_are_causes(each, depth + 1) for each in members)
