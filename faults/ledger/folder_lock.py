"""Allow one run at a time in a folder: two would take each other's plan and ledgers, and kill each other's roles."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from faults.ledger.ledger import SUFFIX
from faults.plan.errors import PlanError


@contextmanager
def occupied(place: Path) -> Iterator[None]:
    """Keep other runs out of a folder, until the block ends or this process does.

    Raises:
        PlanError: a run is going on there: its launcher lives, or a process has one of its ledgers open.
        OSError: there is no such folder, or this user may not read it.
    """
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not _lock(handle) or any(map(_is_written, place.glob(f"*{SUFFIX}"))):
            raise PlanError(f"a run is going on in {place}: wanted a folder of its own for each run")
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)  # a child that was forked meanwhile has the folder open, too
        os.close(handle)


def _lock(handle: int) -> bool:
    """Lock a file; False if another process holds the lock. If files cannot be locked, no process does."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _is_written(ledger: Path) -> bool:
    """Whether a process has opened it for writing, and has neither closed it nor ended (`Ledger` locks it)."""
    with suppress(OSError):
        handle = os.open(ledger, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return not _lock(handle)
        finally:
            os.close(handle)
    return False
