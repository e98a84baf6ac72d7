"""Check the files of a run's folder by the types that their writers use, because anybody may write there."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from faults.ledger import error_links
from reference.system.text import shown

Form = Callable[[Any], bool]


def check(values: Mapping[str, Any], forms: Mapping[str, Form]) -> None:
    """Check values against their forms. Names without a form may have any value. Raises ValueError."""
    for name, value in values.items():
        if name in forms and not forms[name](value):
            raise ValueError(f"{name!r} cannot be {shown(value)}")


def by_name(*rows: tuple[Form, str]) -> dict[str, Form]:
    """Return the form of each name, from rows of a form and the names that have it."""
    return {name: form for form, names in rows for name in names.split()}


def _of(kind: type) -> Form:
    return lambda value: isinstance(value, kind)


text, truth, mapping = _of(str), _of(bool), _of(dict)


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


def named(form: Form) -> Form:
    """Want a mapping of names to these."""
    return lambda value: isinstance(value, dict) and all(map(form, value.values()))


def links(value: Any) -> bool:
    """Whether it can be the result of `error_links.to_json`."""
    try:
        return bool(error_links.from_json(value))
    except ValueError:
        return False
