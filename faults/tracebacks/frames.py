"""Read the frames of a formatted traceback: where an error was raised, by which code, and whether it ended a wait."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from typing import NamedTuple

# A frame has no code if its source is unknown, as with `python -c`.
_FRAME = re.compile(
    r'^  File "(?P<file>[^\n]*)", line (?P<line>\d+), in (?P<name>[^\n]*)(?:\n    (?P<code>[^\n]*))?', re.MULTILINE
)
# Files whose `raise` is not the program's own: installed packages, and Python's library.
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib/python\d|<frozen |<string>")
# A call of a queue that returns or raises at once, and one that has a limit.
_ZERO = r"0(?:\.0*)?\s*[,)]"
_AT_ONCE = re.compile(
    rf"\b(?:get|put)_nowait\b|\bblock\s*=\s*False\b|\.get\(\s*(?:False|0)\b|\.put\(.*,\s*False\s*[,)]"
    rf"|\btimeout\s*=\s*{_ZERO}|\.get\(\s*True,\s*{_ZERO}"
)
_LIMIT = re.compile(rf"\btimeout\s*=\s*(?!None\b|{_ZERO})")
# The condition before the `raise` in Python's queues, after no wait and after a wait.
_ASKS = {False: re.compile(r"_qsize\(\)|_poll\(\)"), True: re.compile(r"\bremaining\b|_poll\(timeout\)")}


# The file that raises `TimeoutExpired`. `run` and the like wait for a command that they have just started: no peer.
_PROCESSES = "/subprocess.py"


class Frame(NamedTuple):
    file: str
    line: int
    name: str
    code: str

    @property
    def library(self) -> bool:
        return _LIBRARY.search(self.file) is not None


def frames_in(block: str) -> list[Frame]:
    """Return the frames of one traceback without its header; the text after its frames is ignored."""
    lines = block.split("\n")
    found = _FRAME.finditer("\n".join(lines[: head(lines)]))
    return [Frame(each["file"], int(each["line"]), each["name"], each["code"] or "") for each in found]


def head(lines: list[str]) -> int:
    """Count the lines that the frames of a traceback take."""
    return next((n for n, line in enumerate(lines) if line and not line.startswith(" ")), len(lines))


def place(frames: Sequence[Frame]) -> str:
    """Return file and number of the last line; empty if there are no frames."""
    return f"{frames[-1].file}:{frames[-1].line}" if frames else ""


def raised(frames: Sequence[Frame]) -> bool:
    """Whether the program itself raises there, by a statement."""
    return bool(frames) and not frames[-1].library and re.search(r"(^|[:;] *)raise\b", frames[-1].code) is not None


def waited(frames: Sequence[Frame]) -> bool | None:
    """Whether a queue's `Empty` or `Full`, or a process's `TimeoutExpired`, ended a wait. None: the frames do not tell.

    The words of the program's own last line tell; for Python's own queues, the line before their `raise` does.
    """
    if frames and frames[-1].file.endswith(_PROCESSES):
        return _of_process(frames)
    own = max((n for n, frame in enumerate(frames) if not frame.library), default=0)
    tail = frames[own:]
    limit = any(_LIMIT.search(frame.code) for frame in tail[:1])
    at_once = any(_AT_ONCE.search(frame.code) or _AT_ONCE.search(frame.name) for frame in tail)
    if at_once and not limit:
        return False
    asked = linecache.getline(tail[-1].file, tail[-1].line - 1) if len(tail) > 1 else ""
    for answer, asks in _ASKS.items():
        if asks.search(asked):
            return answer
    return True if limit and not at_once else None


def _of_process(frames: Sequence[Frame]) -> bool | None:
    """Whether the program waited for a process that it had started before."""
    asked = next(frame for frame in frames if frame.file.endswith(_PROCESSES))
    return True if asked.name in ("wait", "communicate") else None
