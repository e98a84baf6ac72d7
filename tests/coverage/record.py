"""What was measured: for each test the probes that it has hit."""

from __future__ import annotations

import json
from base64 import b85decode
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from zlib import decompress

import numpy as np
import numpy.typing as npt

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

    def reached(self) -> dict[str, dict[int, bool]]:
        """Return by file whether any process has hit each of its probes, by the probe's line."""
        found: defaultdict[str, dict[int, bool]] = defaultdict(dict)
        reached = np.any(self.hits, axis=0)
        for number, (file, line) in enumerate(self.probes):
            found[file][line] = bool(reached[number])
        return dict(found)
