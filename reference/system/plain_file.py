"""Read a whole file of bounded length, because a pipe or a device may never end."""

from __future__ import annotations

import errno
from pathlib import Path

# The longest text or plan of a user's, in bytes.
LONGEST = 2**26


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
