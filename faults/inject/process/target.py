"""Find the process of a role, and hold it by a pidfd so that no signal reaches another process (Linux)."""

from __future__ import annotations

import json
import os
import select
import time
from pathlib import Path

from faults.ledger.ledger import SUFFIX, boot_id

# How long an effect may take to be seen (seconds); a guardian has `guardian.STOP_SECONDS` of its own within it.
EFFECT_SECONDS = 10.0
# The kernel counts the start of a process in such steps (seconds).
_TICK = 1 / os.sysconf("SC_CLK_TCK")


class CannotFireError(RuntimeError):
    """The fault cannot be fired: one line that says why."""


def process_of(role: str, folder: Path, world: str | None = None) -> tuple[int, int]:
    """The process that was the last to open the role's ledger: its id and a pidfd. Raises CannotFireError.

    ``world``: where the role that fires meets the others. Of two worlds at once its own is hurt, once that has started.
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
        handle = os.pidfd_open(pid)
    except ProcessLookupError as error:
        raise CannotFireError(f"{role}, process {pid}, is gone already") from error
    if ended(handle, 0) or not _is_older(pid, written):
        os.close(handle)
        raise CannotFireError(f"{role}, process {pid}, is gone already")
    return pid, handle


def ended(handle: int, seconds: float) -> bool:
    """Whether the process of this pidfd ends within so many seconds."""
    return bool(select.select([handle], [], [], seconds)[0])


def _is_older(pid: int, written: float) -> bool:
    """Whether this process started before ``written`` (monotonic): a later one has only inherited the number."""
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return False
    asleep = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()  # ticks count a suspended machine's time too
    return ticks * _TICK <= written + asleep + _TICK
