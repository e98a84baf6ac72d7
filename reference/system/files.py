"""Read files that anybody may have written, write files whole, and name those of a world."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# The longest text or plan of a user's, in bytes.
LONGEST = 2**26


def occupy_streams() -> None:
    """Open the null device where a standard stream is closed.

    Otherwise the next file or socket would get that stream's number, and output would be written into it.
    """
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(handle, True)
    os.close(handle)


def content_of(path: Path, longest: int | None = None, *, pipe: bool = False) -> bytes:
    """Read a plain file; with ``pipe`` a pipe or a device, too. ``longest``: the most bytes, by default any number.

    Raises:
        OSError: the file cannot be read, is no plain file, or is too long.
    """
    if not pipe and path.exists() and not (path.is_file() or path.is_dir()):  # for a folder the system has an error
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    with path.open("rb") as file:
        content = file.read() if longest is None else file.read(longest + 1)
    if longest is not None and len(content) > longest:
        raise OSError(errno.EFBIG, f"it has more than {longest} bytes", str(path))
    return content


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
