"""The tables of the manual, from the tables of the code. ``python -m tests.project.fault_tables`` prints them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from faults.plan.fields import FIELDS, WORDS, wanted
from faults.plan.kinds import KINDS

ROOT = Path(__file__).parents[2]


def _table(*rows: Iterable[str]) -> str:
    first, *others = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([first, f"|{'---|' * (first.count(' | ') + 1)}", *others])


def _code(names: Iterable[str]) -> str:
    return " ".join(f"`{name}`" for name in names)


def shapes_table() -> str:
    """Return the table of the fields that kinds need and may have at each place: a row for those that are alike."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for kind in KINDS:
        found.setdefault((kind.place, _code(kind.needs), _code(kind.may)), []).append(kind.name)
    return _table(("kind", "place", "needs", "may have"), *((_code(names), *row) for row, names in found.items()))


def fields_table() -> str:
    """Return the table of what each field means and takes."""
    takes = {name: "; ".join([wanted(name, WORDS.get(name, ())), *_further(name)]) for name in FIELDS}
    rows = ((f"`{name}`", text, takes[name]) for name, text in FIELDS.items())
    return _table(("field", "means", "takes"), *rows)


def _further(name: str) -> list[str]:
    """Say which kinds take further words as this field."""
    return [f"{kind.name} also {' or '.join(map(repr, kind.words[name]))}" for kind in KINDS if name in kind.words]


if __name__ == "__main__":
    print(shapes_table(), fields_table(), sep="\n\n")
