"""Golden runs as folders, by their rows, such as ``matrix/rnn-Crash-at-step``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.golden import store

_unpacked = cache(store.unpacked)


def stored_run(row: str, place: Path) -> Path:
    """Write the run of a row below ``place``, unless it is there, and return its folder."""
    source, _, name = row.partition("/")
    folder = place / source / name
    if not folder.exists():
        store.write(_unpacked(source)[name], folder)
    return folder
