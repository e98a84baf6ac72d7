"""What may lie where a file is wanted: how each is made, and why it cannot be read."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path


def _link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        folder = os.open(path.parent, os.O_PATH)  # a socket's own name has at most 108 bytes
        server.bind(f"/proc/self/fd/{folder}/{path.name}")
        os.close(folder)


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 2**40)


HOSTILE_FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "pipe": (os.mkfifo, "not a plain file"),
    "link to an endless file": (_link("/dev/zero"), "not a plain file"),
    "folder": (Path.mkdir, "Is a directory"),
    "link to nothing": (_link("nothing"), "No such file or directory"),
    "link to itself": (_link("f"), "Too many levels of symbolic links"),
    "socket": (_socket, "No such device or address"),
    "terabyte": (_sparse, "it has more than 100 bytes"),
}
