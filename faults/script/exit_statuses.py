"""Read with which statuses the processes of a script ended, from the files that C wrote (see `exit_record`)."""

from __future__ import annotations

from pathlib import Path

STATUS = ".status"


def statuses(folder: Path) -> dict[int, int]:
    """Return the status of each process that ended by the C library's `exit`."""
    return {pid: told[-1] for pid, told in _told(folder).items() if told}


def silent(folder: Path) -> set[int]:
    """Return the processes that should have recorded a status, and have not, or not yet."""
    return {pid for pid, told in _told(folder).items() if not told}


def _told(folder: Path) -> dict[int, bytes]:
    """Read what C has written, by process."""
    files = folder.glob(f"+.*{STATUS}")
    return {int(path.name.removesuffix(STATUS).rpartition(".")[2]): path.read_bytes() for path in files}
