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

_STATED = "The above exception was the direct cause of the following exception:"
_MET = "During handling of the above exception, another exception occurred:"
_TRACE = "Traceback (most recent call last):"
_THERE = "On WorkerInfo("
_CALLBACK = "Got the following error when running the callback: "
_NAMED = re.compile(r"(?P<name>[A-Za-z_][\w.<>]*)(?:: (?P<text>.*))?", re.DOTALL)
# Where the source is not at hand, as of `python -c`, a frame has no code.
_FRAME = re.compile(
    r'^  File "(?P<file>[^\n]*)", line (?P<line>\d+), in [^\n]*(?:\n    (?P<code>[^\n]*))?', re.MULTILINE
)
# Whose `raise` is no answer of the program's: what is installed, and Python's own library.
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib/python\d|<frozen ")

# As much of an error's text as is kept (characters), and as many of its pieces.
TEXT, PIECES = 400, 20


@dataclass(frozen=True)
class Piece:
    """One error of a chain. ``bases``: its types' names without modules, its own first.

    ``place``: file and number of the last line that its traceback has, empty where it has none; ``raised``: whether
    that line is a ``raise`` of the program's own. Neither says which error it is.
    """

    bases: tuple[str, ...]
    text: str
    place: str = field(default="", compare=False)
    raised: bool = field(default=False, compare=False)

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
        if link == _MET and not _last_line("".join(section.split(_TRACE)[1:2]))[1]:
            break
    return found[:PIECES]


def to_json(pieces: list[Piece]) -> list[dict[str, Any]]:
    return [asdict(piece) for piece in pieces]


def from_json(value: Any) -> list[Piece]:
    """Raises TypeError, KeyError: not what `to_json` gives."""
    return [
        Piece(tuple(map(str, each["bases"])), str(each["text"]), str(each.get("place", "")), bool(each.get("raised")))
        for each in value or ()
    ]


def _errors(section: str) -> Iterator[Piece]:
    """The errors of one part of a traceback: the one that it ends with, and what that one's text brings with it."""
    for block in section.split(_TRACE)[1:]:
        lines = block.split("\n")
        named = _NAMED.fullmatch("\n".join(lines[_head(lines) :]).strip())
        if named is not None:
            yield from _pieces(named["name"], named["text"] or "", *_last_line(block))


def _head(lines: list[str]) -> int:
    """How many lines the frames of a traceback take."""
    return next((n for n, line in enumerate(lines) if line and not line.startswith(" ")), len(lines))


def _pieces(name: str, text: str, place: str = "", raised: bool = False) -> Iterator[Piece]:
    text = text.split("\nAt:\n")[0].strip("' \n")
    if text.startswith(_CALLBACK):
        inner = _NAMED.fullmatch(text.removeprefix(_CALLBACK))
        if inner is not None:
            yield from _pieces(inner["name"], inner["text"] or "")
            return
    if _THERE not in text:  # else it only stands for what the callee has raised, which follows
        yield Piece(_bases_named(name), text[:TEXT], place, raised)


def _last_line(block: str) -> tuple[str, bool]:
    """The last line of code of a traceback, and whether the program itself raises there, by a statement."""
    lines = block.split("\n")
    frames = list(_FRAME.finditer("\n".join(lines[: _head(lines)])))
    if not frames:
        return "", False
    file, line, code = frames[-1].group("file", "line", "code")
    return f"{file}:{line}", not _LIBRARY.search(file) and re.search(r"(^|[:;] *)raise\b", code or "") is not None


def _bases(kind: type) -> tuple[str, ...]:
    return tuple(each.__name__ for each in kind.__mro__ if each not in (object, BaseException))


def _bases_named(name: str) -> tuple[str, ...]:
    """By a name as tracebacks print it, without its module where that is the program's own."""
    module, _, last = name.rpartition(".")
    places = [sys.modules.get(each) for each in ([module] if module else ["__main__", "__mp_main__"])]
    for place in [*([] if module else [builtins]), *places]:
        kind = getattr(place, last, None)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            return _bases(kind)
    return (last,)
