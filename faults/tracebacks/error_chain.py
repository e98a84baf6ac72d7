"""Read from a formatted traceback what an error derives from: its causes here, and those at the role where it began.

One error is a list of pieces, its own first. The following errors are pieces, too:

- a cause that the program states (`raise ... from error`);
- an error that was being handled when a ``raise`` statement of the program raised the next one, even ``from None``
  (which the text of an error that came over RPC does not show). If another function raised than the one that handles
  the error, it may have found a mistake in something else, so all pieces from there on are ``doubtful``;
- the pieces of the callee's traceback, which an error that came over RPC has in its text.

An error that happened by itself while another was handled (an operation fails, an `assert` does not hold) is a mistake:
the list ends with it. An exception group is one piece, with the list of each of its members.
"""

from __future__ import annotations

import builtins
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from faults.tracebacks.exception_groups import folded, unmarked
from faults.tracebacks.frames import Frame, frames_in, head, place, raised, waited

_STATED = "The above exception was the direct cause of the following exception:"
_MET = "During handling of the above exception, another exception occurred:"
_TRACE = "Traceback (most recent call last):"
_THERE = "On WorkerInfo("
_CALLBACK = "Got the following error when running the callback: "
_NAMED = re.compile(r"(?P<name>[A-Za-z_][\w.<>]*)(?:: (?P<text>.*))?", re.DOTALL)
# How much is kept: characters of an error's text, pieces of an error, members of a group.
TEXT, PIECES, MEMBERS = 400, 20, 100


@dataclass(frozen=True)
class Piece:
    """One error of a chain. ``bases``: its types' names without modules, its own first.

    ``place``: file and number of the last line in its traceback, empty if there is none; ``raised``: whether that line
    is a ``raise`` of the program's own; ``waited``: whether the program waited for an empty or full queue, None if
    unknown; ``doubtful``: whether the pieces before it may not derive from it. Comparisons ignore these four.
    ``members``: the members of an exception group, each with what it derives from; empty if that cannot be read.
    """

    bases: tuple[str, ...]
    text: str
    place: str = field(default="", compare=False)
    raised: bool = field(default=False, compare=False)
    waited: bool | None = field(default=None, compare=False)
    members: tuple[tuple[Piece, ...], ...] = ()
    doubtful: bool = field(default=False, compare=False)

    @property
    def name(self) -> str:
        return self.bases[0]

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


# A member of a group that cannot be read.
UNREAD = Piece(("",), "")


def pieces_of(error: BaseException) -> list[Piece]:
    """Return the pieces of an exception of this process."""
    try:
        shown = _unhidden(traceback.TracebackException.from_exception(error, max_group_width=MEMBERS))
        found = pieces_in("".join(shown.format()))
    except Exception:  # the program's own `__str__` may raise
        found = []
    own = _bases(type(error))
    if not found:
        return [Piece(own, "")]
    # Take the class from the exception itself, because no module may have its name.
    return [replace(found[0], bases=own), *found[1:]] if found[0].name == own[0] else found


def _unhidden(shown: traceback.TracebackException) -> traceback.TracebackException:
    """Show the contexts that ``raise ... from None`` hides from a reader: the error is nevertheless a reply to them."""
    found = [shown]
    for each in found:
        each.__suppress_context__ = each.__cause__ is not None
        found += filter(None, [each.__cause__, each.__context__, *(each.exceptions or ())])
    return shown


def pieces_in(text: str) -> list[Piece]:
    """Return the pieces of a formatted traceback."""
    if _THERE in text:
        text = text.replace("\\n", "\n").replace("\\'", "'")  # a KeyError quotes its text
    text, groups = folded(text)
    members = [tuple(tuple(pieces_in(_whole(each))) for each in group) for group in groups]
    found: list[Piece] = []
    parts = re.split(rf"^({re.escape(_STATED)}|{re.escape(_MET)})\n", text, flags=re.MULTILINE)
    sections = [_whole(section) if groups else section for section in reversed(parts[::2])]
    doubtful = False
    for section, handled, link in zip(sections, [*sections[1:], ""], [*reversed(parts[1::2]), ""], strict=True):
        found += [replace(piece, doubtful=doubtful) for piece in _errors(section, members)]
        raising = frames_in(_blocks(section)[0]) if link == _MET and _blocks(section) else []
        if link == _MET and not raised(raising):
            break
        doubtful |= link == _MET and not _handles(handled, raising[-1])
    return found[:PIECES]


def _blocks(section: str) -> list[str]:
    """Return the tracebacks of one part, without their headers: its own, and those in its text."""
    return section.split(_TRACE)[1:]


def _handles(section: str, raising: Frame) -> bool:
    """Whether the function that raises is the one that handled an error of this part: the first frame is its own."""
    frames = [frames_in(block)[:1] for block in _blocks(section)]
    return any(not first or (first[0].file, first[0].name) == (raising.file, raising.name) for first in frames)


def _whole(error: str) -> str:
    """Add a traceback's header to a group, or to a member of one, that has none because it was never raised."""
    return error if _TRACE in error else f"{_TRACE}\n{error.lstrip()}"


def to_json(pieces: list[Piece]) -> list[dict[str, Any]]:
    return [asdict(piece) for piece in pieces]


def from_json(value: Any) -> list[Piece]:
    """Read the pieces that `to_json` wrote. Raises TypeError, KeyError: something else."""
    return [_from_json(each) for each in value or ()]


def _from_json(value: dict[str, Any]) -> Piece:
    return Piece(
        tuple(map(str, value["bases"])),
        str(value["text"])[:TEXT],
        str(value.get("place", "")),
        bool(value.get("raised")),
        None if value.get("waited") is None else bool(value["waited"]),
        tuple(tuple(from_json(each)) for each in value.get("members") or ()),
        bool(value.get("doubtful")),
    )


def paths(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Resolve groups: one list for each member of a group, after the pieces that derive from the group."""
    for number, piece in enumerate(pieces):
        if piece.members:
            held = [path for each in piece.members for path in paths(each or [UNREAD])]
            return [[*pieces[:number], *(_doubted(each, piece) for each in path)] for path in held]
    return [list(pieces)]


def _doubted(piece: Piece, group: Piece) -> Piece:
    return replace(piece, doubtful=piece.doubtful or group.doubtful)


def _errors(section: str, groups: Sequence[tuple[tuple[Piece, ...], ...]]) -> Iterator[Piece]:
    """Yield the errors of one part of a traceback: the one at its end, and those in the text of that one."""
    for block in _blocks(section):
        lines = block.split("\nAt:\n")[0].split("\n")  # without the frames of its own that torch appends
        error, group = unmarked("\n".join(lines[head(lines) :]).strip())
        named = _NAMED.fullmatch(error.strip())
        if named is not None:
            frames = frames_in(block)
            for piece in _pieces(named["name"], named["text"] or ""):
                held = () if group is None else groups[group]
                yield replace(piece, place=place(frames), raised=raised(frames), waited=waited(frames), members=held)


def _pieces(name: str, text: str) -> Iterator[Piece]:
    text = text.split("\nAt:\n")[0].strip("' \n")
    if text.startswith(_CALLBACK):
        inner = _NAMED.fullmatch(text.removeprefix(_CALLBACK))
        if inner is not None:
            yield from _pieces(inner["name"], inner["text"] or "")
            return
    if _THERE not in text:  # otherwise it only wraps the callee's error, which follows
        yield Piece(_bases_named(name), text[:TEXT])


def _bases(kind: type) -> tuple[str, ...]:
    return tuple(each.__name__ for each in kind.__mro__ if each not in (object, BaseException))


def _bases_named(name: str) -> tuple[str, ...]:
    """Return the types of the exception with this name, as tracebacks print it: without a module if it is built in, or
    in the program's own file."""
    module, _, last = name.rpartition(".")
    places = [sys.modules.get(each) for each in ([module] if module else ["__main__", "__mp_main__"])]
    for home in [*([] if module else [builtins]), *places]:
        kind = getattr(home, last, None)
        if isinstance(kind, type) and issubclass(kind, BaseException):
            return _bases(kind)
    return (last,)
