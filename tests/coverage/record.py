"""What was measured: for each test the probes that it has hit; and what coverage.py makes of it."""

from __future__ import annotations

import contextlib
import json
from base64 import b85decode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import decompress

import numpy as np
import numpy.typing as npt
from coverage import Coverage, CoverageData
from coverage.python import PythonFileReporter

from tests.coverage.probes import NO_TEST, Probe


@dataclass
class Record:
    """``hits[number]`` are the probes that ``tests[number]`` has hit. ``digest``: of the sources."""

    digest: str
    probes: list[Probe]
    tests: list[str]
    hits: npt.NDArray[np.bool_]

    @classmethod
    def load(cls, file: Path) -> Record:
        with np.load(file) as stored:
            probes = list(zip(stored["files"].tolist(), stored["lines"].tolist(), strict=True))
            hits = np.unpackbits(stored["hits"], axis=1, count=len(probes)).astype(bool)
            return cls(str(stored["digest"]), probes, stored["tests"].tolist(), hits)

    def save(self, file: Path) -> None:
        files, lines = ([each[place] for each in self.probes] for place in (0, 1))
        hits, new = np.packbits(self.hits, axis=1), file.with_suffix(".new.npz")
        np.savez_compressed(new, digest=self.digest, files=files, lines=lines, tests=self.tests, hits=hits)
        new.replace(file)

    def add(self, folder: Path) -> None:
        """Add what the processes of pytest have noted in a folder."""
        found = dict(zip(self.tests, self.hits, strict=True))
        for notes in folder.glob("*.notes"):
            for line in notes.read_text().splitlines():
                test, text = json.loads(line)
                row = found.setdefault(test, np.zeros(len(self.probes), bool))
                row[np.frombuffer(decompress(b85decode(text)), np.uint32)] = True
        self.tests, self.hits = list(found), np.array(list(found.values()), bool).reshape(-1, len(self.probes))

    def covering(self, file: str, line: int) -> tuple[int, list[str]]:
        """Return the tests that reach a line, and the first line of its statement.

        Raises:
            ValueError: the file has no statement there.
        """
        numbers = [(at, number) for number, (name, at) in enumerate(self.probes) if name == file and 0 < at <= line]
        if not numbers:
            raise ValueError(f"{file} has no statement at line {line}")
        at, number = max(numbers)
        return at, self._named(self.hits[:, number])

    def of_file(self, file: str) -> list[str]:
        """Return the tests that reach any line of a file."""
        return self._named(np.any(self.hits[:, [name == file for name, _ in self.probes]], axis=1))

    def imports(self, file: str, line: int) -> bool:
        """Whether a statement with this first line is reached outside of tests, as all that an import executes."""
        number = self.probes.index((file, line))
        return any(self.hits[row, number] for row, test in enumerate(self.tests) if test == NO_TEST)

    def _named(self, rows: npt.NDArray[np.bool_]) -> list[str]:
        return [self.tests[row] for row in np.flatnonzero(rows) if self.tests[row] != NO_TEST]

    def report(self, root: Path, folder: Path) -> dict[str, Any]:
        """Return coverage.py's figures by file. Leave them in ``folder``, with the data for coverage.py's reports."""
        hits: dict[str, dict[int, bool]] = {}
        reached_at = set(np.flatnonzero(self.hits.any(axis=0)).tolist())
        for number, (file, line) in enumerate(self.probes):
            hits.setdefault(str(root / file), {})[line] = number in reached_at
        reached = CoverageData(str(folder / ".coverage"))
        reached.erase()
        coverage = Coverage(data_file=str(folder / ".coverage"), branch=True, config_file=False)
        for file, lines in hits.items():
            entered = [(-1, line) for line in lines if line > 0 and lines[line]]
            reached.add_arcs({file: [*entered, *_branches(lines, PythonFileReporter(file, coverage).arcs())]})
        reached.touch_files(hits)  # those of which nothing was reached, too
        coverage.load()
        figures = folder / "coverage.json"
        with contextlib.chdir(root):  # names are relative to it
            coverage.json_report(outfile=str(figures))
        found: dict[str, Any] = json.loads(figures.read_text())["files"]
        return found


def _branches(lines: Mapping[int, bool], possible: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Choose the possible steps from a line to another one that were taken.

    A branch begins with a statement that is not reached from elsewhere, or is the way out of an `if` or a loop without
    `else`, which has a probe. Other steps count as taken when both lines were reached.
    """
    inside = dict(pairwise(sorted(line for line in lines if line > 0)))
    for start, end in possible:
        leaves = -start in lines and end != inside.get(start)
        if lines.get(start) and (lines[-start] if leaves else lines.get(end, end < 0)):
            yield start, end
