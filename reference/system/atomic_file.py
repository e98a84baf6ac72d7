"""Write a file whole or not at all, even over an earlier one."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def place_of(path: str | os.PathLike[str]) -> Path:
    """Where a file of this name is, or will be.

    The kernel decides: it opens what is there, if this user may write it, and follows the links in a folder of
    everybody's that it lets this user follow (fs.protected_symlinks).

    Raises:
        OSError: it does not.
    """
    with suppress(FileNotFoundError):
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    return Path(path).resolve()


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A file to write, beside the one of this name; at the end of the block it takes that one's place.

    Its permissions are that one's, or what the umask leaves of a new file's.

    Raises:
        OSError: nothing can be written there.
    """
    target = place_of(path)
    scratch = target.with_name(f".{secrets.token_hex(8)}{target.suffix}")
    os.close(os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666))
    try:
        like = target if target.exists() else scratch
        mode = stat.S_IMODE(like.stat().st_mode) & 0o777
        yield scratch
        scratch.chmod(mode)  # whoever has written it may have made it anew
        scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)
