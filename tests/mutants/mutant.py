"""One planted bug, as data: which text of which file is replaced by what, and which tests have to notice."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.mutants.checkout import write


class Stale(ValueError):
    """A mutant that cannot be planted any more. Says which, and why."""


@cache
def _program(text: str) -> str:
    """Of a file as it is, in which many bugs are planted."""
    return ast.dump(ast.parse(text))


@dataclass(frozen=True)
class Mutant:
    """``old`` stands in ``file`` exactly once. ``killers``: node ids, few and fast; ``models``: the mistake;
    ``hangs``: its killer is expected to wait in vain, and to be ended by the limit of every test.

    ``also``: further places of the same bug, each ``(file, old, new)``: a mistake that a tutorial and its twin share.
    """

    name: str
    file: str
    old: str
    new: str
    killers: tuple[str, ...]
    models: str
    hangs: bool = False
    also: tuple[tuple[str, str, str], ...] = field(default=())

    @property
    def places(self) -> tuple[tuple[str, str, str], ...]:
        """Every place of the bug: file, text, and by what it is replaced."""
        return ((self.file, self.old, self.new), *self.also)

    def planted(self, text: str, place: int = 0) -> str:
        """The text of the file of this place with the bug in it.

        Raises:
            Stale: the text to replace is not there exactly once, or what comes out is no other program.
        """
        file, old, new = self.places[place]
        count = text.count(old)
        if count != 1:
            raise Stale(f"{self.name}: the text to replace occurs {count} times in {file}, wanted 1")
        mutated = text.replace(old, new)
        try:
            same = ast.dump(ast.parse(mutated)) == _program(text)
        except SyntaxError as error:
            raise Stale(f"{self.name}: no Python, line {error.lineno}: {error.msg}") from error
        if same:
            raise Stale(f"{self.name}: the replacement changes nothing")
        return mutated

    def plant(self, root: Path) -> None:
        """Into the copy of the checkout at ``root``, at every place. Raises Stale."""
        for place, (file, _, _) in enumerate(self.places):
            path = root / file
            if not path.is_file():
                raise Stale(f"{self.name}: there is no {file}")
            write(path, self.planted(path.read_text(), place))
