"""Choose the tests for a bug: those that reach its line, the nearest first, as many as fit into a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache

import numpy as np

from tests.coverage.probes import NO_TEST
from tests.coverage.record import Record
from tests.tiers.changes import distance
from tests.tiers.spread import recorded

# Seconds that a test takes besides its own recorded ones, and the most tests of a bug.
EACH, MOST = 0.05, 400


class Reaching:
    """The tests of a record of coverage, by the lines that they reach."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.seconds = seconds_of(record.tests)
        self._columns: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for number, (file, line) in enumerate(record.probes):
            if line > 0:
                self._columns[file].append((line, number))

    def tests(self, file: str, line: int) -> list[str]:
        """Return all tests that reach a line, or that import its file if nothing of it is executed later."""
        found = [number for at, number in self._columns[file] if at == self._begin(file, line)]
        rows = np.flatnonzero(self.record.hits[:, found].any(axis=1))
        return [self.record.tests[row] for row in rows if self.record.tests[row] != NO_TEST]

    def _begin(self, file: str, line: int) -> int:
        return max((at for at, _ in self._columns[file] if at <= line), default=0)

    def nearest(self, places: Iterable[tuple[str, int]], seconds: float) -> tuple[str, ...]:
        """Return the tests that reach one of these lines, the fewest imports away and the shortest first.

        They take as many seconds together as given, or it is one test that takes longer.
        """
        places = list(places)
        files = tuple(sorted({file for file, _ in places}))
        found = {test for file, line in places for test in self.tests(file, line)}
        chosen: list[str] = []
        left = seconds
        for test in sorted(found, key=lambda each: (_steps(each.partition("::")[0], files), self.seconds[each], each)):
            if (left := left - self.seconds[test] - EACH) < 0 and chosen:
                break
            chosen.append(test)
        return tuple(chosen[:MOST])


@cache
def _steps(test_file: str, files: tuple[str, ...]) -> int:
    steps = distance([test_file], frozenset(files))
    return 100 if steps is None else steps


def seconds_of(tests: Iterable[str]) -> dict[str, float]:
    """Return each test's recorded seconds; what a file's short tests take together, they share."""
    tests = list(tests)
    short = Counter(file for test in tests if test not in recorded().get(file := test.partition("::")[0], {}))
    return {test: _seconds(test, short) for test in tests}


def _seconds(test: str, short: Counter[str]) -> float:
    file = test.partition("::")[0]
    found = recorded().get(file, {})
    return found[test] if test in found else found.get(file, 0.0) / short[file]
