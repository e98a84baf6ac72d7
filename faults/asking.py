"""Which processes their own program has ended: a signal that nobody sent on purpose is a crash.

Whoever sends SIGTERM or SIGKILL from Python is seen by `watch`, in every process of a script, whether or not that one
ever imports torch. What others send, such as a shell's ``kill``, is seen at the receiver (`farewell`), but for SIGKILL,
which no process survives to tell of.

Imported at the start of Python, so this needs nothing but the standard library.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from faults.relatives import everybody, is_running

SUFFIX = ".term"

# By these a program ends its processes.
_ENDING = (signal.SIGKILL, signal.SIGTERM)


def watch(folder: Path) -> None:
    """Of this process, and of those that are forked from it; nothing a second time. Not `signal.pidfd_send_signal`, by
    which a plan kills."""
    if isinstance(os.kill, partial):
        return
    os.kill = partial(_kill, folder, os.kill)
    os.killpg = partial(_killpg, folder, os.killpg)


def asked_to_end(folder: Path) -> dict[int, float]:
    """The processes that their own program has ended, or tried to, and when it last did (monotonic seconds)."""
    shift, found = time.monotonic() - time.time(), dict[int, float]()
    for path in folder.glob(f"*{SUFFIX}"):
        about = path.stat()
        if about.st_size:
            pid = int(path.name.removesuffix(SUFFIX).rpartition(".")[2])
            found[pid] = max(found.get(pid, 0.0), about.st_mtime + shift)
    return found


def _kill(folder: Path, kill: Callable[[int, int], None], pid: int, number: int) -> None:
    """Stands for `os.kill`, by which multiprocessing and subprocess end their children too."""
    if number in _ENDING:
        _note(folder, _receivers(pid), "os.kill")
    kill(pid, number)


def _killpg(folder: Path, killpg: Callable[[int, int], None], group: int, number: int) -> None:
    """Stands for `os.killpg`, by which torchrun and others end a child and whatever that has started."""
    if number in _ENDING:
        _note(folder, _members(group or os.getpgrp()), "os.killpg")
    killpg(group, number)


def _note(folder: Path, pids: Iterable[int], how: str) -> None:
    for pid in pids:
        if pid != os.getpid() and is_running(pid):  # one that has ended already was not ended by this
            with suppress(OSError):
                (folder / f"+.{pid}{SUFFIX}").write_text(f"by {how}\n")


def _receivers(pid: int) -> list[int]:
    """Whom `os.kill` reaches by this number: one process, a group, or with -1 all."""
    if pid > 0:
        return [pid]
    return list(everybody()) if pid == -1 else _members(-pid or os.getpgrp())


def _members(group: int) -> list[int]:
    """The processes of a process group."""
    return [pid for pid in everybody() if _group(pid) == group]


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:  # it has ended meanwhile
        return -1
