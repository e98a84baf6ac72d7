"""Golden runs as folders, by their rows, such as ``matrix/rnn-Crash-at-step``."""

from __future__ import annotations

from pathlib import Path

from tests.golden import store


def stored_run(row: str, place: Path) -> Path:
    """Write the run of a row below ``place``, unless it is there, and return its folder."""
    source, _, name = row.partition("/")
    folder = place / source / name
    if not folder.exists():
        store.write(store.unpacked(source)[name], folder)
    return folder
