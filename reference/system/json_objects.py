"""Read JSON objects that anybody may have written: each name once, and values of the forms that their writers use."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from reference.system.files import LONGEST, Unusable, content_of
from reference.system.text import OneLine, shown

Form = Callable[[Any], bool]


class NoObject(OneLine, ValueError):
    """A text is no JSON object, or has a name twice or a value of another form. One line."""


def json_object(content: str | bytes, what: str) -> dict[str, Any]:
    """Read an object. ``what``: its name in errors. Raises NoObject."""
    try:
        value = json.loads(content, object_pairs_hook=_once)
    except NoObject:
        raise
    except (ValueError, RecursionError) as error:
        where = f" ({error})" if isinstance(error, json.JSONDecodeError) else ""
        raise NoObject(f"{what} must be a JSON object, got {shown(content)}{where}") from error
    if not isinstance(value, dict):
        raise NoObject(f"{what} must be a JSON object, got {shown(content)}")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise NoObject(f"{shown(name)} is given twice")
        values[name] = value
    return values


def read_object(
    path: Path, forms: Mapping[str, Form] | None = None, longest: int = LONGEST, **absent: Any
) -> dict[str, Any]:
    """Read a file that holds an object, with ``forms`` one of exactly these fields. Raises Unusable.

    ``absent``: the values of fields that the file may leave out.
    """
    try:
        values = absent | json_object(content_of(path, longest), "its content")
        if forms is not None:
            check_all(values, forms)
    except NoObject as error:
        raise Unusable(path, error) from error
    return values


def check(values: Mapping[str, Any], forms: Mapping[str, Form]) -> None:
    """Check values against their forms. Names without a form may have any value. Raises NoObject."""
    for name, value in values.items():
        if name in forms and not forms[name](value):
            raise NoObject(f"{shown(name)} cannot be {shown(value)}")


def check_all(values: Mapping[str, Any], forms: Mapping[str, Form]) -> None:
    """Check that there are exactly the values that have a form. Raises NoObject."""
    check(values, forms)
    for strange in sorted(values.keys() ^ forms.keys()):
        raise NoObject(f"{'unknown' if strange in values else 'missing'} field {shown(strange)}")


def by_name(*rows: tuple[Form, str]) -> dict[str, Form]:
    """Return the form of each name, from rows of a form and the names that have it."""
    return {name: form for form, names in rows for name in names.split()}


def _of(kind: type) -> Form:
    return lambda value: isinstance(value, kind)


text, truth, mapping = _of(str), _of(bool), _of(dict)


def integer(value: Any) -> bool:
    return type(value) is int


def real(value: Any) -> bool:
    """Whether it is a finite number that is no larger than floats are."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


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


def some(form: Form) -> Form:
    """Allow nothing that is empty."""
    return lambda value: bool(value) and form(value)


def like(forms: Mapping[str, Form]) -> Form:
    """Want a mapping of exactly these names."""
    return lambda value: (
        isinstance(value, dict) and value.keys() == forms.keys() and all(forms[name](value[name]) for name in forms)
    )
