"""Find the processes of a test run, by their parents and by a mark that orphans keep, and their states (Linux)."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "FAULTS_TESTS_"


@contextmanager
def marked() -> Iterator[str]:
    """Set an environment variable in this process, and so in all processes that it starts in this block.

    A process that is started with another environment does not have it. The name is unique to this process, so that two
    runs at the same time find only their own processes; the processes of a run within a run have both marks.
    """
    mark = f"{PREFIX}{os.getpid()}_{time.time_ns()}"
    os.environ[mark] = "1"
    try:
        yield mark
    finally:
        os.environ.pop(mark, None)


def everybody() -> set[int]:
    """Return all process ids of the machine."""
    return {int(entry) for entry in os.listdir("/proc") if entry.isdigit()}  # noqa: PTH208 (twice a test)


def relatives(pids: set[int], mark: str) -> set[int]:
    """Return those of ``pids`` that still run, and descend from this process or have its mark."""
    return {pid for pid in pids if pid != os.getpid() and is_running(pid) and (_descends(pid) or _has(pid, mark))}


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie, which only waits to be reaped."""
    return _stat(pid)[0] not in "ZX"


def ends_by(pid: int, due: float) -> bool:
    """Wait until a process ends, or until ``due`` (monotonic seconds). Return whether it has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], max(0.0, due - time.monotonic()))[0])
    finally:
        os.close(handle)


def command(pid: int) -> str:
    """Return the first 80 characters of a process's command line."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        return " ".join(filter(None, words))[:80] or "a process"
    return "a process"


def _stat(pid: int) -> tuple[str, int]:
    """Return a process's state and parent; ``X`` and 0 if it has ended."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
    except OSError:
        return "X", 0
    return state, int(parent)


def _descends(pid: int) -> bool:
    while pid > 1:
        pid = _stat(pid)[1]
        if pid == os.getpid():
            return True
    return False


def _has(pid: int, mark: str) -> bool:
    with suppress(OSError):
        return f"{mark}=".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    return False
