"""Refuse JSON objects that have a name twice, because readers do not agree on which value counts."""

from __future__ import annotations

from typing import Any

from reference.system.printable import shown


class Twice(ValueError):
    """A JSON object has a name twice. One line."""


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object's dictionary: the ``object_pairs_hook`` for `json.loads`. Raises Twice."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise Twice(f"{shown(name)} is given twice")
        values[name] = value
    return values
