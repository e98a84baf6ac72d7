"""Write a file whole or not at all, even if it replaces another one."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


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
