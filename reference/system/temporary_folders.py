"""Make temporary folders that never outlive their launching process for long.

The launcher holds a lock in each of its folders. The next launcher removes the folders whose lock nobody holds.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import stat
import tempfile
from contextlib import suppress
from functools import cache
from multiprocessing import util
from pathlib import Path

from reference.system.files import delete
from reference.system.interrupts import held

PRIVATE = 0o700


def make_private(place: Path) -> None:
    """Make a folder, and all missing folders above it, for this user alone. An existing folder is not changed.

    Raises:
        OSError: the folder cannot be made, or something else has its name.
    """
    if place.is_dir():
        return
    if not place.parent.exists():
        make_private(place.parent)
    place.mkdir(mode=PRIVATE, exist_ok=True)


# The names of folders of worlds, of runs of `faults`, and of multiprocessing's sockets begin so.
PREFIXES = ("world-", "faults-", "pymp-")

# A file in each folder. The launcher keeps it locked; the kernel unlocks it when the launcher ends, however it ends.
MARK = ".launcher"
# What is in it. A lock may be known on its own host alone, while others use the folder, too.
_HOST = os.fsencode(os.uname().nodename)

# The most bytes that the kernel takes as the name of a socket.
_LONGEST_SOCKET = 107

# The lock files that this process has open, by folder, and the folders that it has made.
_locks: dict[Path, int] = {}
_made: set[Path] = set()


def make(prefix: str) -> Path:
    """Make a folder that only its user can read. It is removed when this process ends, unless `keep` gets it."""
    tidy(tempfile.gettempdir())
    with held():
        place = Path(tempfile.mkdtemp(prefix=prefix))
        _made.add(place)
        claim(place)
    return place


def claim(place: Path) -> None:
    """Mark a folder for `tidy` as this process's. If files cannot be locked there, it stays unmarked.

    A folder that another process has marked stays that one's: multiprocessing's children use their parent's folder.
    """
    if place in _locks or (place / MARK).exists():
        return
    scratch = place / f"{MARK}.new"  # renamed once it is locked, so that nobody finds it unlocked
    with suppress(OSError):
        handle = _locks[place] = os.open(scratch, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(handle, _HOST)
        scratch.rename(place / MARK)


def claim_sockets() -> None:
    """Claim the folder of multiprocessing's sockets. Raises OSError: TMPDIR is too long for the name of a socket."""
    place = Path(util.get_temp_dir())
    if (length := len(os.fsencode(place / "listener-xxxxxxxx"))) > _LONGEST_SOCKET:
        raise OSError(f"TMPDIR is {length - _LONGEST_SOCKET} bytes too long for the name of a socket: {place}")
    claim(place)


def keep(place: Path) -> None:
    """Keep a folder of `make` after this process has ended. The caller tells the user about it."""
    (place / MARK).unlink(missing_ok=True)
    _forget(place)


def remove(place: Path) -> None:
    """Remove a folder of `make`."""
    with suppress(OSError):
        _delete(place)
    _forget(place)


@cache
def tidy(folder: str) -> None:
    """Remove the folders in ``folder`` that killed launchers have left; once per process."""
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
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if its launcher lives
            # The launcher has just kept the folder, or it is of another host.
            if not os.fstat(handle).st_nlink or os.read(handle, 256) != _HOST:
                return
            _delete(place)
        finally:
            os.close(handle)


def _delete(place: Path) -> None:
    for each in place.iterdir():
        if each.name != MARK:
            with suppress(OSError):
                delete(each)
    if all(each.name == MARK for each in place.iterdir()):  # the mark goes last, so that the next launcher can continue
        place.joinpath(MARK).unlink(missing_ok=True)
        place.rmdir()


def _forget(place: Path) -> None:
    _made.discard(place)
    handle = _locks.pop(place, None)
    if handle is not None:
        os.close(handle)


def _remove_all() -> None:
    for place in list(_made):
        remove(place)


def _forget_all() -> None:
    """Run in a forked child: the folders and the locks belong to its parent."""
    _made.clear()
    for place in list(_locks):
        _forget(place)


atexit.register(_remove_all)
os.register_at_fork(after_in_child=_forget_all)
