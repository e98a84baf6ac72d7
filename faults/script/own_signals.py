"""Record which processes the program itself has ended: a signal that no process of it has sent is a crash.

Whoever sends a signal from Python is seen by `watch`, in every process of a script, whether or not that one ever
imports torch. SIGTERM and SIGKILL ask a process to end; any other signal, such as SIGHUP, only where its default action
ends the process at once. Of one that the receiver handles nothing is noted: what ends it later may be a crash.

What others send, such as a shell's ``kill``, is seen at the receiver (`exit_record`) where it is SIGTERM or SIGINT. No
process survives SIGKILL to tell of it.

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

from faults.run.process_tree import everybody, is_running

SUFFIX = ".term"

# By these a program ends its processes, also those that handle SIGTERM.
_ENDING = (signal.SIGKILL, signal.SIGTERM)

# By these it ends no process: where nobody handles them, a process stops, goes on, or does not notice.
_HARMLESS = {
    *(signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),
    *(signal.SIGCONT, signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH),
}

# What /proc calls the signals that a process handles, ignores, and does not take now.
_MASKS = ("SigCgt:", "SigIgn:", "SigBlk:")


def watch(folder: Path) -> None:
    """Of this process, and of those that are forked from it; nothing a second time. Not `signal.pidfd_send_signal`, by
    which a plan kills."""
    if isinstance(os.kill, partial):
        return
    os.kill = partial(_kill, folder, os.kill)
    os.killpg = partial(_killpg, folder, os.killpg)


def leave_alone() -> None:
    """Undo `watch`."""
    for name in ("kill", "killpg"):
        watched = getattr(os, name)
        if isinstance(watched, partial):
            setattr(os, name, watched.args[1])


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
    if _may_end(number):
        _note(folder, _receivers(pid), number, "os.kill")
    kill(pid, number)


def _killpg(folder: Path, killpg: Callable[[int, int], None], group: int, number: int) -> None:
    """Stands for `os.killpg`, by which torchrun and others end a child and whatever that has started."""
    if _may_end(number):
        _note(folder, _members(group or os.getpgrp()), number, "os.killpg")
    killpg(group, number)


def _may_end(number: int) -> bool:
    return number > 0 and number not in _HARMLESS


def _note(folder: Path, pids: Iterable[int], number: int, how: str) -> None:
    for pid in pids:
        # One that has ended already was not ended by this.
        if pid != os.getpid() and is_running(pid) and (number in _ENDING or _ends(pid, number)):
            with suppress(OSError):
                (folder / f"+.{pid}{SUFFIX}").write_text(f"by {how}\n")


def _ends(pid: int, number: int) -> bool:
    """Whether this signal ends the process now: nobody handles, ignores or blocks it there."""
    with suppress(OSError):
        lines = map(str.split, Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines())
        masks = [int(words[1], 16) for words in lines if words and words[0] in _MASKS]
        return not any(mask >> (number - 1) & 1 for mask in masks)
    return False


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
