"""What an error derives from, as a formatted traceback says it: its causes here, and those at the role it came from.

One error is a list of pieces, its own first. A cause that the program states (`raise ... from error`) is a piece, and
so is one that is only being handled when another is raised by a ``raise`` statement of the program. What goes wrong by
itself while an error is handled (an operation fails, an `assert` does not hold) is a mistake: the list ends with it.
An error that came over RPC carries the callee's traceback in its text; its pieces follow.
"""

from __future__ import annotations

import builtins
import re
import sys
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from faults.frames import frames_in, head, place, raised, waited

_STATED = "The above exception was the direct cause of the following exception:"
_MET = "During handling of the above exception, another exception occurred:"
_TRACE = "Traceback (most recent call last):"
_THERE = "On WorkerInfo("
_CALLBACK = "Got the following error when running the callback: "
_NAMED = re.compile(r"(?P<name>[A-Za-z_][\w.<>]*)(?:: (?P<text>.*))?", re.DOTALL)
# As much of an error's text as is kept (characters), and as many of its pieces.
TEXT, PIECES = 400, 20


@dataclass(frozen=True)
class Piece:
    """One error of a chain. ``bases``: its types' names without modules, its own first.

    ``place``: file and number of the last line that its traceback has, empty where it has none; ``raised``: whether
    that line is a ``raise`` of the program's own; ``waited``: whether a queue that was empty or full was waited for,
    None where nobody can tell. None of these says which error it is.
    """

    bases: tuple[str, ...]
    text: str
    place: str = field(default="", compare=False)
    raised: bool = field(default=False, compare=False)
    waited: bool | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        return self.bases[0]

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


def pieces_of(error: BaseException) -> list[Piece]:
    """Of an exception of this process."""
    try:
        found = pieces_in("".join(traceback.format_exception(error)))
    except Exception:  # the program's own `__str__`
        found = []
    own = _bases(type(error))
    if not found:
        return [Piece(own, "")]
    # Its class is at hand, also where no module has its name.
    return [replace(found[0], bases=own), *found[1:]] if found[0].name == own[0] else found


def pieces_in(text: str) -> list[Piece]:
    """Of a formatted traceback."""
    if _THERE in text:
        text = text.replace("\\n", "\n").replace("\\'", "'")  # a KeyError quotes its text
    found: list[Piece] = []
    parts = re.split(rf"^({re.escape(_STATED)}|{re.escape(_MET)})\n", text, flags=re.MULTILINE)
    for section, link in zip(reversed(parts[::2]), [*reversed(parts[1::2]), ""], strict=True):
        found += _errors(section)
        if link == _MET and not raised(frames_in("".join(section.split(_TRACE)[1:2]))):
            break
    return found[:PIECES]


def to_json(pieces: list[Piece]) -> list[dict[str, Any]]:
    return [asdict(piece) for piece in pieces]


def from_json(value: Any) -> list[Piece]:
    """Raises TypeError, KeyError: not what `to_json` gives."""
    return [_from_json(each) for each in value or ()]


def _from_json(value: dict[str, Any]) -> Piece:
    bases, text, waited = tuple(map(str, value["bases"])), str(value["text"]), value.get("waited")
    return Piece(
        bases, text, str(value.get("place", "")), bool(value.get("raised")), None if waited is None else bool(waited)
    )


def _errors(section: str) -> Iterator[Piece]:
    """The errors of one part of a traceback: the one that it ends with, and what that one's text brings with it."""
    for block in section.split(_TRACE)[1:]:
        lines = block.split("\nAt:\n")[0].split("\n")  # what torch appends: its own frames
        named = _NAMED.fullmatch("\n".join(lines[head(lines) :]).strip())
        if named is not None:
            frames = frames_in(block)
            for piece in _pieces(named["name"], named["text"] or ""):
                yield replace(piece, place=place(frames), raised=raised(frames), waited=waited(frames))


def _pieces(name: str, text: str) -> Iterator[Piece]:
    text = text.split("\nAt:\n")[0].strip("' \n")
    if text.startswith(_CALLBACK):
        inner = _NAMED.fullmatch(text.removeprefix(_CALLBACK))
        if inner is not None:
            yield from _pieces(inner["name"], inner["text"] or "")
            return
    if _THERE not in text:  # else it only stands for what the callee has raised, which follows
        yield Piece(_bases_named(name), text[:TEXT])


def _bases(kind: type) -> tuple[str, ...]:
    return tuple(each.__name__ for each in kind.__mro__ if each not in (object, BaseException))


def _bases_named(name: str) -> tuple[str, ...]:
    """By a name as tracebacks print it, without its module where that is the program's own."""
    module, _, last = name.rpartition(".")
    places = [sys.modules.get(each) for each in ([module] if module else ["__main__", "__mp_main__"])]
    for home in [*([] if module else [builtins]), *places]:
        kind = getattr(home, last, None)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            return _bases(kind)
    return (last,)
