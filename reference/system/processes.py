"""Look at processes, let them end with their parent, and wait for long in a way that signals can end."""

from __future__ import annotations

import ctypes
import errno
import math
import os
import select
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TypeVar

from reference.system.network_namespace import system


def state_of(pid: int) -> str:
    """The process's state, such as ``S (sleeping)``; ``unknown`` if the process is gone."""
    return told(pid, "State") or "unknown"


def is_stopped(pid: int) -> bool:
    """Whether a signal, and not a debugger, has stopped the process."""
    return state_of(pid).startswith("T ")


def is_traced(pid: int) -> bool:
    """Whether a debugger is attached to the process."""
    return told(pid, "TracerPid") not in ("", "0")


def is_ending(pid: int) -> bool:
    """Whether the process has given its memory back: it is ending, as after SIGKILL, or has ended."""
    return not told(pid, "VmSize")


def told(pid: int, name: str) -> str:
    """The value of one line of the process's status file; empty if the process is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")  # a process's name may be any bytes
    except OSError:
        return ""
    return next((line.split(maxsplit=1)[1] for line in status.splitlines() if line.startswith(f"{name}:")), "")


# From <linux/prctl.h>.
_PR_SET_PDEATHSIG = 1


def end_with_parent(number: int) -> None:
    """Ask the kernel for this signal when this process's parent ends (Linux)."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def readable(handles: Iterable[int], seconds: float) -> list[int]:
    """Wait until a descriptor can be read, or the process of a pidfd has ended; return those of which that is true.

    `select.select` refuses descriptors from 1,024 on, which a role among many has.
    """
    poll = select.poll()
    for each in handles:
        poll.register(each, select.POLLIN)
    return [each for each, _ in poll.poll(1000 * seconds)]


# The numbers of two system calls on every processor that torch supports. Pythons that are built for old systems, as
# conda's are, have neither these calls nor `os.P_PIDFD` and `os.memfd_create`.
_PIDFD_SEND_SIGNAL, _PIDFD_OPEN = 424, 434


def pidfd_open(pid: int) -> int:
    """Return a pidfd: a descriptor of a process, which no later process with this id takes over.

    Raises:
        ProcessLookupError: there is no such process.
        OSError: the system has no pidfds, or a container does not allow them.
    """
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, f"got {sys.platform}")
    return system("syscall", _PIDFD_OPEN, pid, 0)


def pidfd_send_signal(handle: int, number: int) -> None:
    """Send a signal to the process of a pidfd. Raises ProcessLookupError, PermissionError."""
    system("syscall", _PIDFD_SEND_SIGNAL, handle, number, None, 0)


def file_in_memory(name: str) -> int:
    """Return the descriptor of a file that no folder has. Raises OSError: there cannot be one more."""
    return system("memfd_create", name.encode(), 1)  # 1: a program that this one starts does not have it


def no_pidfds() -> str | None:
    """Say in one line why a process cannot be held by a pidfd here; None if it can."""
    try:
        os.close(pidfd_open(os.getpid()))
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM):  # other errors are told where they happen
            return f"wanted Linux 5.3 or newer, and a container that allows pidfd_open: {error.strerror}"
    return None


def status_of_ended(pid: int) -> int:
    """Return the exit status of a child that has ended; negative for a signal. The child is not reaped, so its number,
    which may be that of a process group, stays its own."""
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert found is not None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


Result = TypeVar("Result")

# The longest step (seconds).
STEP = 0.2


def wait_until(is_done: Callable[[float], object], seconds: float = math.inf) -> bool:
    """Wait until ``is_done``, which gets the seconds that it may wait, returns something true.

    Return whether it did so within ``seconds``.
    """
    due = time.monotonic() + seconds
    while True:
        left = max(0.0, due - time.monotonic())
        if is_done(min(STEP, left)):
            return True
        if not left:
            return False


def result_of(future: Future[Result]) -> Result:
    """Wait for a future, and return its result or raise its exception."""
    wait_until(lambda step: future.done() or wait([future], step).done)  # one that is cancelled may never be notified
    return future.result()
