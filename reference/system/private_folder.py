"""Make folders that only their user can read, for worlds and runs."""

from __future__ import annotations

from pathlib import Path

PRIVATE = 0o700


def make_private(place: Path) -> None:
    """Make the folder, and those above it that are missing, for this user alone. One that is there stays as it is.

    Raises:
        OSError: it cannot be made, or is no folder.
    """
    if place.is_dir():
        return
    if not place.parent.exists():
        make_private(place.parent)
    place.mkdir(mode=PRIVATE, exist_ok=True)
