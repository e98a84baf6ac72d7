"""Record which processes the program itself ended: a signal that none of its processes sent is a crash.

`watch` sees every signal that a process of the script sends from Python, even if that process never imports torch.
SIGTERM and SIGKILL ask a process to end. Any other signal, such as SIGHUP, counts only if its default action ends the
process at once. If the receiver handles the signal, nothing is noted, because a later end may be a crash.

Signals from elsewhere, such as a shell's ``kill``, are seen at the receiver (`exit_record`) if they are SIGTERM or
SIGINT. No process survives SIGKILL to report it.

This module is imported at the start of Python, so it needs only the standard library.
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

# Signals by which a program ends its processes, even those that handle SIGTERM.
_ENDING = (signal.SIGKILL, signal.SIGTERM)

# Signals that end no process: without a handler a process stops, continues or ignores them.
_HARMLESS = {
    *(signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),
    *(signal.SIGCONT, signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH),
}

# The names in /proc for the signals that a process handles, ignores and blocks.
_MASKS = ("SigCgt:", "SigIgn:", "SigBlk:")


def watch(folder: Path) -> None:
    """Record the signals that this process and its forked children send. A second call changes nothing.

    `signal.pidfd_send_signal`, by which a plan kills, is not watched.
    """
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
    """Return the processes that their own program ended or tried to end, and when it last did (monotonic seconds)."""
    shift, found = time.monotonic() - time.time(), dict[int, float]()
    for path in folder.glob(f"*{SUFFIX}"):
        about = path.stat()
        if about.st_size:
            pid = int(path.name.removesuffix(SUFFIX).rpartition(".")[2])
            found[pid] = max(found.get(pid, 0.0), about.st_mtime + shift)
    return found


def _kill(folder: Path, kill: Callable[[int, int], None], pid: int, number: int) -> None:
    """Replace `os.kill`, which multiprocessing and subprocess use to end their children, too."""
    if _may_end(number):
        _note(folder, _receivers(pid), number, "os.kill")
    kill(pid, number)


def _killpg(folder: Path, killpg: Callable[[int, int], None], group: int, number: int) -> None:
    """Replace `os.killpg`, which torchrun and others use to end a child and its descendants."""
    if _may_end(number):
        _note(folder, _members(group or os.getpgrp()), number, "os.killpg")
    killpg(group, number)


def _may_end(number: int) -> bool:
    return number > 0 and number not in _HARMLESS


def _note(folder: Path, pids: Iterable[int], number: int, how: str) -> None:
    for pid in pids:
        # A process that has ended already was not ended by this signal.
        if pid != os.getpid() and is_running(pid) and (number in _ENDING or _ends(pid, number)):
            with suppress(OSError):
                (folder / f"+.{pid}{SUFFIX}").write_text(f"by {how}\n")


def _ends(pid: int, number: int) -> bool:
    """Whether this signal ends the process now, because the process does not handle, ignore or block it."""
    with suppress(OSError):
        lines = map(str.split, Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines())
        masks = [int(words[1], 16) for words in lines if words and words[0] in _MASKS]
        return not any(mask >> (number - 1) & 1 for mask in masks)
    return False


def _receivers(pid: int) -> list[int]:
    """Return the processes that `os.kill` reaches by this number: one process, a group, or with -1 all."""
    if pid > 0:
        return [pid]
    return list(everybody()) if pid == -1 else _members(-pid or os.getpgrp())


def _members(group: int) -> list[int]:
    """Return the processes of a process group."""
    return [pid for pid in everybody() if _group(pid) == group]


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:  # the process has ended meanwhile
        return -1
