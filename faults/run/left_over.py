"""Find what a run has left on this machine: processes of its roles, and the shared memory that they made."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from faults.ledger.ledger import Timeline
from faults.run.process_tree import is_running

# How long before the start of RPC, when a role's ledger begins, its program may make shared memory (seconds). Processes
# get the ids of ended ones only after some thousands of others.
_EARLIER = 60.0


def leaks(timeline: Timeline) -> list[str]:
    """Name the roles of the run that still live, and the shared memory that they made.

    Shared memory that is much older than its role is of a process that had the same id, and has long ended.
    """
    roles = [event for event in timeline.of("start") if not event.role.startswith("+")]
    pids: Mapping[int, str] = {int(event.details["pid"]): event.role for event in roles}
    found = [f"{role} still runs (process {pid})" for pid, role in pids.items() if is_running(pid)]
    begun = {int(event.details["pid"]): float(event.details["wall"]) for event in roles}
    memory = [
        name
        for name, changed in _shared_memory()
        if any(f"_{pid}_" in f"{name}_" and changed > wall - _EARLIER for pid, wall in begun.items())
    ]
    return found + [f"shared memory {name}" for name in memory]


def _shared_memory() -> Iterator[tuple[str, float]]:
    """Yield name and time (of the last change, seconds since the epoch) of this user's shared memory.

    Other users' may have names of the same form.
    """
    place = Path("/dev/shm")
    for path in place.iterdir() if place.exists() else ():
        with suppress(OSError):  # it was removed meanwhile
            status = path.lstat()
            if status.st_uid == os.geteuid():
                yield path.name, status.st_ctime
