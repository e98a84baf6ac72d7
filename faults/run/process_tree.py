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
    """Whatever this process starts meanwhile has this variable, unless it is given another environment.

    The mark is this process's own, so that two runs at once do not take each other's processes for theirs; the
    processes of a run within a run have both marks.
    """
    mark = f"{PREFIX}{os.getpid()}_{time.time_ns()}"
    os.environ[mark] = "1"
    try:
        yield mark
    finally:
        os.environ.pop(mark, None)


def everybody() -> set[int]:
    """All process ids there are."""
    return {int(entry) for entry in os.listdir("/proc") if entry.isdigit()}  # noqa: PTH208 (twice a test)


def relatives(pids: set[int], mark: str) -> set[int]:
    """Those of ``pids`` that still run and descend from this process, or have its mark."""
    return {pid for pid in pids if pid != os.getpid() and is_running(pid) and (_descends(pid) or _has(pid, mark))}


def is_running(pid: int) -> bool:
    """Neither gone nor a zombie that only waits to be reaped."""
    return _stat(pid)[0] not in "ZX"


def ends_by(pid: int, due: float) -> bool:
    """Whether it has ended by then (monotonic seconds); waits until it has."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], max(0.0, due - time.monotonic()))[0])
    finally:
        os.close(handle)


def command(pid: int) -> str:
    """How a process was started, in short."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        return " ".join(filter(None, words))[:80] or "a process"
    return "a process"


def _stat(pid: int) -> tuple[str, int]:
    """A process's state and parent; ``X`` and 0 where it is gone."""
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
