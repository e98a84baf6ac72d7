"""Find where the processes of an overdue script wait: each is asked for the stacks of its threads, one after another.

A stopped process is asked last, because it has to go on for that. No process is ended before all have answered, so
that no stack tells of an error which another one's end has caused; but the signal ends a sleep in C, as signals do.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from faults.inject.process.target import BLOCKED, HANDLED, OF_THREAD, PENDING, has_signal
from faults.run.leftovers import command, everybody, has_variable, is_tracker
from faults.script.autostart import VARIABLE
from faults.script.stacks import SIGNAL, STACKS
from reference.system.processes import is_stopped

# Seconds that a process has to write its stacks.
ANSWER_SECONDS = 2.0

_THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*:$", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
# Files of libraries; and those that are certainly no program: an installed program lies among the libraries.
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib/python\d|^<frozen ")
_STANDARD = re.compile(r"/lib/python[\d.]+/(?!site-packages|dist-packages)|-packages/torch/|^<frozen ")
_OWN = f"{Path(__file__).parents[1]}{os.sep}"


def waits(folder: Path, roles: Mapping[int, str]) -> dict[str, str]:
    """Return where each Python process of the run waits, by its role or its command.

    The stacks of all threads go to the file `STACKS` of the folder. ``roles``: the roles of processes.
    """
    found = {}
    for pid in sorted(_processes(folder), key=lambda pid: (is_stopped(pid), pid)):
        stopped = " (stopped)" if is_stopped(pid) else ""
        name = f"{roles.get(pid) or command(pid)} (process {pid})"
        found[name] = f"{place_of(asked(pid, folder / STACKS))}{stopped}"
    return found


def place_of(stacks: str) -> str:
    """Return the innermost lines of the program's own in all threads of one process, those of the main thread first."""
    *others, main = _threads(stacks) or [[]]
    for library in (_LIBRARY, _STANDARD):
        lines = [_line(main, library), *(_line(frames, library, "in another thread ") for frames in others)]
        if found := list(dict.fromkeys(filter(None, lines))):
            return ", ".join(found)
    return _text(main[0]) if main else "no line of Python"


def _threads(stacks: str) -> list[list[tuple[str, str, str]]]:
    """Return the frames of each thread, the innermost first. The main thread is the last one, because it is the oldest;
    the current one is the one that handled the signal. Python writes the 100 newest threads, and then three dots: so
    the frames of the main one are not known."""
    found = [_FRAME.findall(text) for text in _THREAD.split(stacks)[1:]]
    return [*found, []] if stacks.endswith("\n...\n") else found


def _line(frames: list[tuple[str, str, str]], library: re.Pattern[str], where: str = "") -> str:
    """Return the innermost line that is of neither a library nor this package; empty if there is none."""
    own = (frame for frame in frames if not library.search(frame[0]) and not frame[0].startswith(_OWN))
    return next((f"{where}{_text(frame)}" for frame in own), "")


def _text(frame: tuple[str, str, str]) -> str:
    file, line, name = frame
    return f"{os.path.basename(file)}:{line} in {name}"  # noqa: PTH119 (as text)


def _processes(folder: Path) -> set[int]:
    """Return the processes that were started under this folder's plan, and handle the signal."""
    found = {pid for pid in everybody() if has_variable(pid, VARIABLE, str(folder))}
    return {pid for pid in found if has_signal(pid, HANDLED, SIGNAL) and not is_tracker(pid)}


def asked(pid: int, file: Path) -> str:
    """Ask one process for its stacks, and return them: what it has written when it has handled the signal.

    A process that does not handle the signal is left alone, and returns nothing.
    """
    before, due = file.stat().st_size, time.monotonic() + ANSWER_SECONDS
    if not has_signal(pid, HANDLED, SIGNAL):
        return ""  # it has started another program since it was found, which the signal would end
    with suppress(ProcessLookupError):
        os.kill(pid, SIGNAL)
        os.kill(pid, signal.SIGCONT)  # a stopped process handles no signal
    while time.monotonic() < due and _is_busy(pid):
        time.sleep(0.005)  # no event tells that another process has handled a signal
    with file.open("rb") as stacks:
        stacks.seek(before)
        return stacks.read().decode(errors="replace")


def _is_busy(pid: int) -> bool:
    """Whether the signal waits for the process, or one of its threads is handling it, which blocks it there."""
    if has_signal(pid, PENDING, SIGNAL):
        return True
    with suppress(OSError):
        threads = [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]
        return any(has_signal(thread, mask, SIGNAL) for thread in threads for mask in (BLOCKED, OF_THREAD))
    return False
