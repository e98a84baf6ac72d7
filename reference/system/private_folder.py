"""Make folders that only their user can read, for worlds and runs."""

from __future__ import annotations

from pathlib import Path

PRIVATE = 0o700


def make_private(place: Path) -> None:
    """Make a folder, and all missing folders above it, for this user alone. An existing folder is not changed.

    Raises:
        OSError: the folder cannot be made, or something else has its name.
    """
    if place.is_dir():
        return
    if not place.parent.exists():
        make_private(place.parent)
    place.mkdir(mode=PRIVATE, exist_ok=True)
