"""What this process itself has, and should have no more after a test: threads, open files, folders of worlds."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from reference.system.temporary_folders import MARK

# How long a thread may take to end, or to close a file of /proc that it reads (seconds).
GRACE = 10.0


def threads() -> set[str]:
    """Name Python's own threads. One of C++ that has called Python stays listed after its end."""
    listed = (each for each in threading.enumerate() if not isinstance(each, threading._DummyThread))
    return {f"thread {each.name} ({each.native_id})" for each in listed}


def files() -> set[str]:
    """Name the open files."""
    found = set()
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 (a Path would open more descriptors)
        with suppress(OSError):  # the descriptor of the listing itself is closed by now
            found.add(f"file descriptor {number}: {os.readlink(f'/proc/self/fd/{number}')}")  # noqa: PTH115 (each test)
    return found


def everything() -> set[str]:
    return threads() | files()


def of_any_test() -> set[str]:
    """Name the threads and the folders of worlds and runs; the lock of each folder is open. Other files may be Python's
    and torch's own, which stay open from whichever test needs them first."""
    return threads() | {each for each in files() if MARK in each and "/pymp-" not in each}


def left_since(before: set[str], look: Callable[[], set[str]] = everything) -> list[str]:
    """Name what is there now, but not in ``before``, once it had `GRACE` to go."""
    if look() - before:
        gc.collect()  # what only garbage refers to does not count
    due = time.monotonic() + GRACE
    while (new := look() - before) and time.monotonic() < due:
        time.sleep(0.01)
    return sorted(new)
