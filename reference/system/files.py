"""Read files that anybody may have written, write files and folders whole, and name those of a world."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from reference.system.text import OneLine

# The longest file, in bytes, of which nothing else is known.
LONGEST = 2**26
# How much is read at a time, because a file may be shorter than it says (bytes).
_PIECE = 2**20
# What a disk must have room for (bytes): less than the longest file that `faults.inject.messages` leaves to a process.
ROOM = 2**16


class Unusable(OneLine, OSError):
    """A file or a folder cannot be used: one line with its name. ``strerror`` says why, without the name."""

    def __init__(self, path: str | os.PathLike[str], why: object = None) -> None:
        """Without ``why``, ``path`` is the whole text: so torch makes the error again at an RPC's caller."""
        reason = getattr(why, "strerror", None) or str(why)
        super().__init__(os.fspath(path) if why is None else f"{os.fspath(path)}: {reason}")
        self.strerror = reason


def occupy_streams() -> None:
    """Open the null device where a standard stream is closed.

    Otherwise the next file or socket would get that stream's number, and output would be written into it.
    """
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(handle, True)
    os.close(handle)


def content_of(path: Path, longest: int = LONGEST, *, pipe: bool = False) -> bytes:
    """Read a plain file of at most ``longest`` bytes; with ``pipe`` a pipe or a device, too. Raises Unusable."""
    pieces, length = [], 0
    try:
        with open(path, "rb", buffering=0, opener=None if pipe else plain) as file:
            size = os.fstat(file.fileno()).st_size  # 0 of a pipe
            while max(size, length) <= longest and (piece := file.read(_PIECE)):
                pieces.append(piece)
                length += len(piece)
    except (OSError, ValueError) as error:  # ValueError: a name that no file has
        raise Unusable(path, error) from error
    if max(size, length) > longest:
        raise Unusable(path, f"it has more than {longest} bytes")
    return b"".join(pieces)


def last_of(path: Path) -> bytes:
    """Read the last `LONGEST` bytes of a plain file. Raises Unusable."""
    try:
        with open(path, "rb", opener=plain) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LONGEST))
            return file.read(LONGEST)
    except (OSError, ValueError) as error:
        raise Unusable(path, error) from error


def plain(path: str, flags: int) -> int:
    """Open a plain file, without waiting for anybody: an ``opener``. For a folder `open` has an error.

    Raises:
        OSError: there is none.
    """
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(handle).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a plain file")
    return handle


def check_room(folder: Path) -> None:
    """Find out whether the folder takes a file of `ROOM` bytes. Raises Unusable."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, ROOM)
    except OSError as error:
        raise Unusable(folder, error) from error


def lock(handle: int, how: int) -> bool:
    """Lock a file or a folder; False if another process holds the lock. If files cannot be locked, no process does."""
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Make a folder, or take an empty one, which the block fills. After an error it is as it was before.

    Raises:
        Unusable: it cannot be made, is not empty, takes no files, or another process fills it.
    """
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, handle)
            if not lock(handle, fcntl.LOCK_EX):
                raise OSError(errno.EBUSY, "another process writes there")
            if any(folder.iterdir()):
                raise OSError(errno.ENOTEMPTY, "not empty")
        except OSError as error:
            raise Unusable(folder, f"{error.strerror}, wanted a new folder") from error
        try:
            check_room(folder)
            yield
        except Exception:  # after an interrupt a user may look at what there is
            with suppress(OSError):  # which would hide the error, for instance of files of another user
                for each in folder.iterdir():
                    delete(each)
                for each in made:
                    each.rmdir()
            raise


def delete(path: Path) -> None:
    """Remove a file, or a folder with all that it holds. Raises OSError: something of it cannot be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def place_of(path: str | os.PathLike[str]) -> Path:
    """Return the path of the file that writing to ``path`` would replace or create.

    The kernel decides: it opens an existing file only if this user may write it, and in a folder that everybody may
    write to it follows only some links (fs.protected_symlinks).

    Raises:
        OSError: the kernel refuses.
    """
    with suppress(FileNotFoundError):
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    return Path(path).resolve()


# How a write fails.
_OF_WRITES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the block a new file beside ``path`` to write; at the end of the block it replaces the file at ``path``.

    The file keeps the permissions of the one that it replaces; a new one gets those that the umask allows.

    Raises:
        OSError: the file cannot be written.
    """
    target = place_of(path)
    scratch = target.with_name(f".{secrets.token_hex(8)}{target.suffix}")
    os.close(os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666))
    try:
        like = target if target.exists() else scratch
        mode = stat.S_IMODE(like.stat().st_mode) & 0o777
        yield scratch
        scratch.chmod(mode)  # the writer may have replaced the file by one of its own
        scratch.replace(target)
    except OSError as error:
        if error.errno in _OF_WRITES and error.filename is None:  # the kernel names no file
            raise Unusable(target, error) from error
        raise
    finally:
        scratch.unlink(missing_ok=True)


# Where the roles of a world find each other.
RENDEZVOUS = "rendezvous"


def log_of(place: Path, role: str) -> Path:
    """The file that a role of the world in ``place`` writes its output to."""
    return place / f"{role}.log"


def stacks_of(place: Path, role: str) -> Path:
    """The file that an overdue role of the world in ``place`` writes its stacks to."""
    return place / f"{role}.stacks"


def roles_of(place: Path) -> set[str]:
    """The roles of the worlds that have used this folder: each has left both its log and its stacks there."""
    return {each.stem for each in place.glob("*.stacks") if each.is_file() and log_of(place, each.stem).is_file()}
