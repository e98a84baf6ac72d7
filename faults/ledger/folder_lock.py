"""Allow one command at a time in a folder and in all below it: two would take each other's plan, ledgers and roles.

A command locks its own folder alone, and shares the lock of each folder above. So a sweep of DIR and a run in DIR/x
exclude each other, while runs in DIR/x and DIR/y do not. The kernel unlocks what a killed process has locked.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path

from faults.ledger.ledger import SUFFIX
from faults.plan.errors import PlanError
from reference.system.private_folder import PRIVATE

# The folders that the code which asks has occupied itself: a sweep makes its runs below its own folder.
_own: ContextVar[frozenset[Path]] = ContextVar("_own", default=frozenset())


@contextmanager
def occupied(place: Path) -> Iterator[None]:
    """Keep other commands out of a folder and all below it, until the block ends or this process does.

    Missing folders are made for this user alone. After an error those that are empty are removed.

    Raises:
        PlanError: a run is going on: its launcher lives, there, below or in a folder above; or a process has a ledger
            open, there or below.
        OSError: the folder cannot be made, or this user may not read it.
    """
    with ExitStack() as stack:
        for each in (*reversed(place.parents), place):
            is_new = _make(each)
            if each == place or each not in _own.get():
                stack.enter_context(_locked(each, alone=each == place))
            if is_new:
                stack.push(partial(_remove_after_error, each))
        # `os.walk` passes over a folder that another program removes meanwhile.
        files = (Path(folder, name) for folder, _, names in os.walk(place) for name in names)
        if any(map(_is_written, (each for each in files if each.suffix == SUFFIX))):
            raise _busy(place)
        _own.set(_own.get() | {place})
        stack.callback(_leave, place)
        yield


def _make(place: Path) -> bool:
    """Make a folder; False if it is there. Raises OSError."""
    if place.exists():
        return False
    with suppress(FileExistsError):  # made meanwhile
        place.mkdir(mode=PRIVATE)
        return True
    return False


@contextmanager
def _locked(place: Path, *, alone: bool) -> Iterator[None]:
    """Lock a folder, or share its lock. A folder above that this user may not read cannot be locked. Raises PlanError:
    another process has locked it."""
    try:
        handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        if alone:
            raise
        yield
        return
    try:
        if not _lock(handle, fcntl.LOCK_EX if alone else fcntl.LOCK_SH):
            raise _busy(place)
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)  # a child that was forked meanwhile has the folder open, too
        os.close(handle)


def _busy(place: Path) -> PlanError:
    return PlanError(f"a run is going on in {place}: wanted a folder of its own for each run")


def _remove_after_error(place: Path, error: type[BaseException] | None, *_: object) -> None:
    if error is not None:
        with suppress(OSError):  # something is in it
            place.rmdir()


def _leave(place: Path) -> None:
    _own.set(_own.get() - {place})


def _lock(handle: int, how: int) -> bool:
    """Lock a file; False if another process holds the lock. If files cannot be locked, no process does."""
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
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
            return not _lock(handle, fcntl.LOCK_EX)
        finally:
            os.close(handle)
    return False
