"""Read and write the text form of faults: words as in a shell, one fault per line or between semicolons. A line that
begins with ``#`` is a comment."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from faults.plan.fields import type_of
from faults.plan.places import PlanError, shown

# The pieces of a text. Each piece ends where the next begins, so that none is read twice.
_PIECE = re.compile(
    r"""(?P<space>^[ \t\r]*+\#[^\n]*|[ \t\r]+)|(?P<end>[;\n]+)|(?P<plain>[^ \t\r;\n\\'"]+)|\\(?P<escaped>.)"""
    r"""|'(?P<literal>[^']*+)'|"(?P<quoted>(?:[^"\\]++|\\.)*+)\"""",
    re.DOTALL | re.MULTILINE,
)
# Within double quotes a backslash escapes only these.
_ESCAPED = re.compile(r"""\\(["\\])""")


def split(text: str) -> list[list[str]]:
    """Split a text into the words of each fault. Raises PlanError: a quotation does not end."""
    groups: list[list[str]] = [[]]
    word: list[str] = []
    for kind, piece in (*_pieces(text), ("end", "")):
        if kind not in ("space", "end"):
            word.append(_ESCAPED.sub(r"\1", piece) if kind == "quoted" else piece)
        elif word:
            groups[-1].append("".join(word))
            word = []
        if kind == "end":
            groups.append([])
    return [group for group in groups if group]


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each piece."""
    place = 0
    while place < len(text):
        found = _PIECE.match(text, place)
        if found is None:
            raise PlanError(f"not a plan: {shown(text)} ({_unfinished(text[place:])})")
        kind = str(found.lastgroup)
        yield kind, found[kind]
        place = found.end()


def _unfinished(rest: str) -> str:
    """Say why the rest of a text, which begins with a quote or is a backslash, is incomplete."""
    escapes = len(rest) - len(rest.rstrip("\\"))
    return "No escaped character" if escapes % 2 and rest[0] != "'" else "No closing quotation"


def pairs(words: Sequence[str], what: str) -> dict[str, Any]:
    """Read ``name=value`` words as fields of ``what``. Raises PlanError."""
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
    if name == "nth" and "-" in value[1:]:  # the first and the last of several
        return value
    number = int if name == "seed" else type_of(name)
    try:
        return number(value)
    except ValueError as error:
        kind = "an integer" if number is int else "a number"
        raise PlanError(f"{what}: {name!r} must be {kind}, got {shown(value)}") from error


def written(name: str, value: Any) -> str:
    """Write ``name=value`` so that `split` and `pairs` read the same value again."""
    if isinstance(value, tuple):
        value = ",".join(value)
    elif not isinstance(value, str):
        value = json.dumps(value)
    return f"{name}={shlex.quote(value)}"
