"""One planted bug, as data: a text in a file, its replacement, and the tests that must notice it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.mutants.checkout import write


class Stale(ValueError):
    """A mutant can no longer be planted. Says which one, and why."""


class Bug(Protocol):
    """What can be planted. ``killers``: the tests to run; ``hangs``: one of them may wait in vain until its time limit;
    ``slow``: they take long, and mostly wait."""

    @property
    def name(self) -> str: ...
    @property
    def killers(self) -> tuple[str, ...]: ...
    @property
    def hangs(self) -> bool: ...
    @property
    def slow(self) -> bool: ...
    def plant(self, root: Path) -> None:
        """Plant the bug in the copy of the checkout at ``root``. Raises Stale."""


@dataclass(frozen=True)
class Mutant:
    """``places``: ``(file, old, new)``, of which ``old`` occurs in the file exactly once; several where a tutorial and
    its twin share a mistake. ``killers``: node ids, few and fast; ``models``: the mistake. ``hangs``: its killer is
    expected to wait in vain until the time limit of every test ends it; ``slow``: it waits for many seconds, in which
    other mutants are tried."""

    name: str
    places: tuple[tuple[str, str, str], ...]
    killers: tuple[str, ...]
    models: str
    hangs: bool = False
    slow: bool = False

    def planted(self, text: str, place: int = 0) -> str:
        """Plant the bug at this place in ``text``, which is the whole file.

        Raises:
            Stale: the text to replace does not occur exactly once, or the result is no program.
        """
        file, old, new = self.places[place]
        count = text.count(old)
        if count != 1:
            raise Stale(f"{self.name}: the text to replace occurs {count} times in {file}, wanted 1")
        mutated = text.replace(old, new)
        try:
            ast.parse(mutated)
        except SyntaxError as error:
            raise Stale(f"{self.name}: no Python, line {error.lineno}: {error.msg}") from error
        return mutated

    def plant(self, root: Path) -> None:
        """Plant the bug at every place, in the copy of the checkout at ``root``. Raises Stale."""
        for place, (file, _, _) in enumerate(self.places):
            path = root / file
            if not path.is_file():
                raise Stale(f"{self.name}: there is no {file}")
            write(path, self.planted(path.read_text(), place))
