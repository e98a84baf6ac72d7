"""Kill a script's processes when the launcher ends, even if the launcher is killed. `tied_processes` runs this file:

    python -I -S parent_watcher.py NAME

It waits until its standard input ends. The launcher holds that open as long as the launcher and the script may live.
Then it kills every process that has the environment variable NAME, and their descendants, again and again until there
is none. It imports nothing of this project, so that it starts in milliseconds. It leads a session of its own, so that a
signal to the launcher's process group does not end it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

# How long it goes on if a process does not end (seconds).
SECONDS = 10.0


def main(name: str) -> None:
    while os.read(0, 1 << 10):
        pass
    due = time.monotonic() + SECONDS
    while found := _marked(f"{name}=".encode()):
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > due:
            return
        time.sleep(0.005)  # a killed process takes some time to end


def _marked(mark: bytes) -> set[int]:
    """Find the processes whose environment began with the variable, and their descendants, without zombies."""
    parents, found = {}, set()
    for pid in (int(each) for each in os.listdir("/proc") if each.isdigit()):  # noqa: PTH208 (as in guardian.py)
        with contextlib.suppress(OSError):
            state, parent = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:2]
            if state in b"ZX":
                continue
            parents[pid] = int(parent)
            if mark in _read(f"/proc/{pid}/environ"):
                found.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= more
    return found - {os.getpid()}


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 (as in guardian.py)
        return file.read()


if __name__ == "__main__":
    main(sys.argv[1])
