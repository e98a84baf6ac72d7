"""Look up hosts' names without asking a server."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Where the C library reads in which order it asks for names, and its default.
ORDER, _DEFAULT = Path("/etc/nsswitch.conf"), "files dns"


@contextmanager
def from_file() -> Iterator[None]:
    """In this block the process looks for hosts in /etc/hosts only. A C library other than glibc does as always."""
    configure = getattr(ctypes.CDLL(None), "__nss_configure_lookup", None)
    if configure is None:
        yield
        return
    usual = _usual_order()
    configure(b"hosts", b"files")
    try:
        yield
    finally:
        configure(b"hosts", usual.encode())


def _usual_order() -> str:
    with suppress(OSError):
        for line in ORDER.read_text(errors="replace").splitlines():
            database, _, order = line.partition("#")[0].partition(":")
            if database.strip() == "hosts":
                return order.strip()
    return _DEFAULT
