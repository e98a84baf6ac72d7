"""Read JSON objects in which no name stands twice: of two values, readers would not agree which one counts."""

from __future__ import annotations

from typing import Any

from reference.system.printable import shown


class Twice(ValueError):
    """A name that stands twice in one object. One line."""


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, for the ``object_pairs_hook`` of `json.loads`. Raises Twice."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise Twice(f"{shown(name)} is given twice")
        values[name] = value
    return values
