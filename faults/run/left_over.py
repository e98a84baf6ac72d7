"""Find what a run has left on this machine: processes of its roles, and the shared memory that they made."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from faults.ledger.ledger import Timeline
from faults.run.process_tree import is_running


def leaks(timeline: Timeline) -> list[str]:
    """Name the roles of the run that still live, and the shared memory that they made."""
    roles = [event for event in timeline.of("start") if not event.role.startswith("+")]
    pids: Mapping[int, str] = {int(event.details["pid"]): event.role for event in roles}
    found = [f"{role} still runs (process {pid})" for pid, role in pids.items() if is_running(pid)]
    memory = [name for name in _shared_memory() if any(f"_{pid}_" in f"{name}_" for pid in pids)]
    return found + [f"shared memory {name}" for name in memory]


def _shared_memory() -> Iterator[str]:
    """Yield this user's shared memory. Other users' may have names of the same form."""
    place = Path("/dev/shm")
    for path in place.iterdir() if place.exists() else ():
        with suppress(OSError):  # it was removed meanwhile
            if path.lstat().st_uid == os.geteuid():
                yield path.name
