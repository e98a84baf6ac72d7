"""Find the process of a role, see what it does with signals, and end a process."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from pathlib import Path

from faults.ledger.ledger import SUFFIX, boot_id
from faults.plan.crash_ways import signal_of, status_of
from reference.system.processes import pidfd_open, readable, told

# Those of a process; a thread has masks of its own for what it blocks, and for what only it has to handle.
IGNORED, HANDLED, PENDING = "SigIgn", "SigCgt", "ShdPnd"
BLOCKED, OF_THREAD = "SigBlk", "SigPnd"


def has_signal(pid: int, mask: str, number: int) -> bool:
    """Whether this signal is in a mask of a process or a thread. False if that has ended."""
    return bool(int(told(pid, mask) or "0", 16) >> (number - 1) & 1)


def end_now(how: str | None) -> None:
    """End this process. It returns only after a signal that the program handles or ignores.

    SIGTERM goes to the process, so that a handler of the program's runs in its main thread. A crash leaves no core
    file.
    """
    status, number = status_of(how), signal_of(how)
    if status is not None:
        os._exit(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number == signal.SIGABRT:
        os.abort()
    elif number == signal.SIGSEGV:
        signal.raise_signal(number)
    elif number is not None:
        os.kill(os.getpid(), number)


# How long an effect may take to be seen (seconds); it includes `guardian.STOP_SECONDS`.
EFFECT_SECONDS = 10.0
# The resolution of a process's start time in /proc (seconds).
_TICK = 1 / os.sysconf("SC_CLK_TCK")
_BOOTTIME = 7  # time.CLOCK_BOOTTIME, which conda's Python may lack


class CannotFireError(RuntimeError):
    """The fault cannot be fired: one line that says why."""


def process_of(role: str, folder: Path, world: str | None = None) -> tuple[int, int]:
    """Return the id and a pidfd of the process that last opened the role's ledger. Raises CannotFireError.

    ``world``: the place where the role that fires meets the others. A process that started in the same world has
    priority.
    """
    try:
        lines = (folder / f"{role}{SUFFIX}").read_bytes().split(b"\n")
        whole = (line for line in lines if line.startswith(b'{"event": "start"') and line.endswith(b"}"))
        starts = [json.loads(line) for line in whole]
        own = [start for start in starts if world is not None and start.get("world") == world]
        start = (own or starts)[-1]
        pid, written, boot = int(start["pid"]), float(start["time"]), start["boot"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise CannotFireError(f"{role} has no process here: it has no ledger that says how it started") from error
    if boot != boot_id():
        raise CannotFireError(f"{role} runs on another machine")
    try:
        handle = pidfd_open(pid)
    except ProcessLookupError as error:
        raise CannotFireError(f"{role}, process {pid}, has ended already") from error
    if readable([handle], 0) or not is_older(pid, written):
        os.close(handle)
        raise CannotFireError(f"{role}, process {pid}, has ended already")
    return pid, handle


def is_older(pid: int, written: float) -> bool:
    """Whether this process started before ``written`` (monotonic). A later one only has the same process id."""
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19])
    except OSError:
        return False
    asleep = time.clock_gettime(_BOOTTIME) - time.monotonic()  # ticks include the time of a suspended machine
    return ticks * _TICK <= written + asleep + _TICK
