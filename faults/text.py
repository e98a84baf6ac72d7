"""The text form of faults: words as a shell would take them, one fault a line or between semicolons."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from faults.refusal import PlanError, shown

_FLOATS = ("seconds", "percent", "chance_percent")
_INTEGERS = ("nth", "times", "kbit_per_second", "seed")


def split(text: str) -> list[list[str]]:
    """The words of each fault. Raises PlanError: a quotation that does not end."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    groups: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word and set(word) <= set(";\n"):
                groups.append([])
            else:
                groups[-1].append(word)
    except ValueError as error:
        raise PlanError(f"not a plan: {shown(text)} ({error})") from error
    return [group for group in groups if group]


def pairs(words: Sequence[str], what: str) -> dict[str, Any]:
    """``name=value`` words as fields of ``what``. Raises PlanError."""
    values: dict[str, Any] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator:
            raise PlanError(f"{what}: wanted name=value, got {shown(word)}")
        if name in values:
            raise PlanError(f"{what}: {shown(name)} is given twice")
        values[name] = _read(what, name, value)
    return values


def _read(what: str, name: str, value: str) -> Any:
    if name == "roles":
        return tuple(value.split(","))
    if name == "every":
        return {"true": True, "false": False}.get(value, value)
    number, kind = (float, "a number") if name in _FLOATS else (int, "an integer")
    if name not in (*_FLOATS, *_INTEGERS):
        return value
    try:
        return number(value)
    except ValueError as error:
        raise PlanError(f"{what}: {name!r} must be {kind}, got {shown(value)}") from error


def written(name: str, value: Any) -> str:
    """``name=value`` so that `split` and `pairs` read the same again."""
    if isinstance(value, tuple):
        value = ",".join(value)
    elif not isinstance(value, str):
        value = json.dumps(value)
    return f"{name}={shlex.quote(value)}"
