"""Kill a script's processes when the launcher ends, even if the launcher is killed. `tied_environment` runs this file:

    python -I -S parent_watcher.py NAME

It waits until its standard input ends. The launcher holds that open as long as the launcher and the script may live.
Then it kills every process that has the environment variable NAME, and their descendants, again and again until there
is none, except resource trackers. A process that has just been started has no environment yet, so it is looked at
again. It imports nothing of this project, so that it starts in milliseconds. It leads a session of its own, so that a
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
# How Python's and torch's resource trackers are started: they end after all others, and remove their shared memory.
_TRACKERS = (b"from multiprocessing.resource_tracker import main;main(", b"torch_shm_manager\0")

# In /proc/PID/stat, after the name: the process's flags, its start (ticks), and where its environment begins.
_FLAGS, _STARTED, _ENVIRONMENT = 6, 19, 47
_OF_KERNEL = 0x00200000  # the flag of a thread of the kernel
# A process that is older does not begin to execute a program, and has no environment for another reason (seconds).
_YOUNG = 5.0
_BOOTTIME = 7  # time.CLOCK_BOOTTIME, which conda's Python may lack


def main(name: str) -> None:
    """Wait until standard input ends, and then kill what has the environment variable ``name``."""
    while os.read(0, 1 << 10):
        pass
    due = time.monotonic() + SECONDS
    found, starting = _marked(name)
    while (found or starting) and time.monotonic() < due:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)  # a killed process takes some time to end
        again, new = _marked(name)
        # Others on this machine start processes all the time. Only those of a marked one are new ones to wait for.
        found, starting = again, new if found else starting & new


def _marked(name: str) -> tuple[set[int], set[int]]:
    """Find the processes whose environment began with the variable, and their descendants, without zombies; and those
    that execute a new program, whose environment the kernel has not set yet."""
    mark, parents, found, starting = f"\0{name}=".encode(), {}, set(), set()
    # Not by /proc/uptime: that of a container may be its own, and the processes' starts the machine's.
    young = (time.clock_gettime(_BOOTTIME) - _YOUNG) * os.sysconf("SC_CLK_TCK")
    for pid in (int(each) for each in os.listdir("/proc") if each.isdigit()):  # noqa: PTH208 (as in guardian.py)
        with contextlib.suppress(OSError):
            words = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
            if words[0] in b"ZX":
                continue
            parents[pid] = int(words[1])
            own = int(words[_FLAGS]) & _OF_KERNEL == 0
            # Of another user's process the kernel tells only root the environment.
            seen = os.geteuid() in (0, os.stat(f"/proc/{pid}").st_uid)  # noqa: PTH116 (as in guardian.py)
            if own and seen and words[_ENVIRONMENT] == b"0" and int(words[_STARTED]) > young:
                starting.add(pid)
            if mark in b"\0" + _read(f"/proc/{pid}/environ"):  # so not a longer name that ends with this one
                found.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= more
    return {pid for pid in found if not _is_tracker(pid)} - {os.getpid()}, starting - found


def _is_tracker(pid: int) -> bool:
    with contextlib.suppress(OSError):
        command = _read(f"/proc/{pid}/cmdline")
        return any(each in command for each in _TRACKERS)
    return False


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 (as in guardian.py)
        return file.read()


if __name__ == "__main__":
    main(sys.argv[1])
