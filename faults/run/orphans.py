"""Find the processes that a run leaves behind: whatever its roles have started, in any session, and not ended."""

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

# From <linux/prctl.h>: orphans of one's descendants become one's own children, instead of the first process's.
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37

_PROC = Path("/proc")

# What ends by itself has this long to do so (seconds); and where the plan has killed a role, what that one has started:
# a DataLoader's workers ask every 5 s (torch's MP_STATUS_CHECK_INTERVAL) whether who has started them is still there.
GRACE, GRACE_OF_KILLED = 2.0, 6.5


@contextmanager
def adopting() -> Iterator[Callable[..., list[str]]]:
    """What is yielded names the processes that are left of what was started meanwhile, once they had some seconds to
    end (``grace``); they are ended on leaving.

    Linux only; elsewhere none is found. What is started here has to begin a session of its own, as roles and scripts
    do: a child within this process's own session is nobody's orphan.
    """
    before, was = _children(), _subreaper()
    _set_subreaper(True)
    try:
        yield partial(_left, before)
    finally:
        _set_subreaper(was)
        while orphans := _children() - before:  # ending one may bring its own children here
            for pid in orphans:
                _end(pid)


def _left(before: set[int], grace: float = GRACE) -> list[str]:
    due = time.monotonic() + grace
    orphans = sorted(_children() - before)
    return [f"{command(pid)} still runs (process {pid})" for pid in orphans if not ends_by(pid, due)]


def _children() -> set[int]:
    """This process's, in other sessions than its own."""
    found: set[int] = set()
    own = os.getsid(0)
    if not _PROC.is_dir():
        return found
    for entry in _PROC.iterdir():
        with suppress(OSError):  # it has ended meanwhile
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
