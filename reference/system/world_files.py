"""Name the files of a world's folder: the rendezvous of its roles, and each role's log and stacks."""

from __future__ import annotations

from pathlib import Path

# Where the roles of a world find each other.
RENDEZVOUS = "rendezvous"


def log_of(place: Path, role: str) -> Path:
    """The file that a role of the world in ``place`` writes its output to."""
    return place / f"{role}.log"


def stacks_of(place: Path, role: str) -> Path:
    """The file that an overdue role of the world in ``place`` writes its stacks to."""
    return place / f"{role}.stacks"


def roles_of(place: Path) -> set[str]:
    """The roles of the worlds that have used this folder: each has left both its log and its stacks there."""
    return {each.stem for each in place.glob("*.stacks") if each.is_file() and log_of(place, each.stem).is_file()}
