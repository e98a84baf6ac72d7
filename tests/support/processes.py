"""Find processes, and wait for their end by event."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from faults.inject.process.guardian import STOP_SECONDS, is_stopped
from faults.run.leftovers import ends_by


def parent_of(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[1])


def children_of(pid: int) -> set[int]:
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return {each for each in pids if parent_of(each) == pid}


def descendants_of(pid: int) -> set[int]:
    children = children_of(pid)
    return children.union(*(descendants_of(child) for child in children))


def left_after(pids: set[int], seconds: float) -> set[int]:
    """Return those of ``pids`` that still run after at most ``seconds``, each."""
    return {pid for pid in pids if not ends_by(pid, time.monotonic() + seconds)}


def stop(pid: int) -> None:
    """Stop a process, and wait until all of its threads have stopped: until the first of them handles the signal, the
    others go on. The kernel tells that only to its parent."""
    os.kill(pid, signal.SIGSTOP)
    due = time.monotonic() + STOP_SECONDS
    while not is_stopped(pid):
        assert time.monotonic() < due, f"process {pid} did not stop within {STOP_SECONDS:g} s"
        time.sleep(0.001)


def kept_waiting(pid: int, thread: int) -> float:
    """Return the seconds in which this thread of a process could have run, but the kernel ran others."""
    return int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[1]) / 1e9


def end(pids: Iterable[int]) -> None:
    """End the processes that a test started, if they still run."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
