"""Find the processes that a run leaves behind: those that its roles started, in any session, and did not end."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from faults.run.process_tree import command, ends_by

# From <linux/prctl.h>: orphaned descendants become children of this process, instead of the first process.
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37

_PROC = Path("/proc")

# Seconds that processes have to end by themselves; and if the plan killed a role, that the role's children have: the
# workers of a DataLoader check their parent every 5 s (torch's MP_STATUS_CHECK_INTERVAL).
GRACE, GRACE_OF_KILLED = 2.0, 6.5


@contextmanager
def adopting() -> Iterator[Callable[..., list[str]]]:
    """Yield a function that names the processes which were started in this block and are left.

    It first gives them some seconds to end (``grace``). Leaving the block kills those that are left.

    Linux only; elsewhere none is found. Processes that are started here have to lead a session of their own, as roles
    and scripts do: a child within this process's own session does not count.
    """
    before, was = _children(), _subreaper()
    _set_subreaper(True)
    try:
        yield partial(_left, before)
    finally:
        _set_subreaper(was)
        while orphans := _children() - before:  # when one ends, this process adopts its children
            for pid in orphans:
                _end(pid)


def _left(before: set[int], grace: float = GRACE) -> list[str]:
    due = time.monotonic() + grace
    orphans = sorted(_children() - before)
    return [f"{command(pid)} still runs (process {pid})" for pid in orphans if not ends_by(pid, due)]


def _children() -> set[int]:
    """Return this process's children in other sessions than its own."""
    found: set[int] = set()
    own = os.getsid(0)
    if not _PROC.is_dir():
        return found
    for entry in _PROC.iterdir():
        with suppress(OSError):  # the process has ended meanwhile
            if not entry.name.isdigit():
                continue
            _, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(parent) == os.getpid() and int(session) != own:
                found.add(int(entry.name))
    return found


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _subreaper() -> bool:
    value = ctypes.c_int(0)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(value), 0, 0, 0)
    return bool(value.value)


def _set_subreaper(value: bool) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(value), 0, 0, 0)
