"""Temporary folders of launching processes: each says by a lock whether its launcher lives, and the next launcher
removes those of dead ones."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from reference.system.interrupts import held

# Worlds, the runs of `faults`, and the sockets of multiprocessing.
PREFIXES = ("world-", "faults-", "pymp-")

# A file in each of them. Its launcher keeps it locked; the kernel unlocks it when that one is gone, however it ended.
MARK = ".launcher"

# The locks of this process, and the folders that it has made.
_locks: dict[Path, int] = {}
_made: set[Path] = set()


def make(prefix: str) -> Path:
    """A new folder that only its user can read. It is gone when this process ends, unless it is given to `keep`."""
    tidy(tempfile.gettempdir())
    with held():
        place = Path(tempfile.mkdtemp(prefix=prefix))
        _made.add(place)
        claim(place)
    return place


def claim(place: Path) -> None:
    """Mark a folder that goes when this process ends, for `tidy`. Where files cannot be locked it stays unmarked."""
    if place in _locks:
        return
    scratch = place / f"{MARK}.new"  # nobody may find it unlocked
    with suppress(OSError):
        handle = _locks[place] = os.open(scratch, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        scratch.rename(place / MARK)


def keep(place: Path) -> None:
    """Leave a folder that `make` has made to the user, who is told of it."""
    (place / MARK).unlink(missing_ok=True)
    _forget(place)


def remove(place: Path) -> None:
    """Remove a folder that `make` has made."""
    shutil.rmtree(place, ignore_errors=True)
    _forget(place)


@cache
def tidy(folder: str) -> None:
    """Remove what launchers have left in this folder that were killed; once a process."""
    with suppress(OSError), os.scandir(folder) as found:
        for each in found:
            if each.name.startswith(PREFIXES):
                _remove_if_dead(Path(each.path))


def _remove_if_dead(place: Path) -> None:
    with suppress(OSError):
        status = place.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return
        handle = os.open(place / MARK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an error: its launcher lives
            for each in place.iterdir():  # the mark last, so that the next one can go on with it
                if each.name != MARK:
                    _delete(each)
            shutil.rmtree(place, ignore_errors=True)
        finally:
            os.close(handle)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _forget(place: Path) -> None:
    _made.discard(place)
    handle = _locks.pop(place, None)
    if handle is not None:
        os.close(handle)


def _remove_all() -> None:
    for place in list(_made):
        remove(place)


def _forget_all() -> None:
    """In a forked child: the folders are its parent's, and so are the locks."""
    _made.clear()
    for place in list(_locks):
        _forget(place)


atexit.register(_remove_all)
os.register_at_fork(after_in_child=_forget_all)
