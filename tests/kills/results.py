"""The file of results: a line for each bug that was tried, and what the lines answer together."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Tried:
    """``sources``: the digest of the code that the bug was planted into. ``verdict``: a `Trial`'s, or 'unreached'.
    ``failed``: the tests that noticed it."""

    sources: str
    name: str
    change: str
    file: str
    line: int
    verdict: str
    failed: tuple[str, ...]

    @property
    def noticed(self) -> bool:
        """Whether the tests show the bug: a program that does not start shows it, too."""
        return self.verdict in ("killed", "broken")


def load(path: Path, sources: str) -> list[Tried]:
    """Return what was tried with these sources, the last result of each bug; a line not written whole is left out."""
    found: dict[str, Tried] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            values = json.loads(line)
        except ValueError:
            continue
        if values["sources"] == sources:
            found[values["name"]] = Tried(**{**values, "failed": tuple(values["failed"])})
    return list(found.values())


def add(path: Path, tried: Tried) -> None:
    """Append one result."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(asdict(tried)) + "\n")


def score(results: Iterable[Tried]) -> dict[str, tuple[int, int]]:
    """Return for each room, and for all, how many bugs were noticed, of how many."""
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for each in results:
        for room in (str(Path(each.file).parent), "all"):
            counts[room][0] += each.noticed
            counts[room][1] += 1
    return {
        room: (killed, every) for room, (killed, every) in sorted(counts.items(), key=lambda item: item[0] == "all")
    }
