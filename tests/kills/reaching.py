"""Choose the tests for a bug: the nearest of those that reach its line, as many as fit into a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from tests.coverage.record import Record
from tests.tiers.changes import distance
from tests.tiers.spread import recorded

# Seconds that a test takes besides its own recorded ones, and the most tests of a bug.
EACH, MOST = 0.05, 400
# Its tests read the sources as text, and so notice any change of a line with a planted bug.
READING = "tests/project/test_mutants.py"


def nearest(
    record: Record, places: Sequence[tuple[str, int]], seconds: Mapping[str, float], most: float
) -> tuple[str, ...]:
    """Return the tests that reach one of these lines, the shortest first. They are chosen of each test file in turn.

    Of a file that is twice as many imports away come half as many, of the one with the source's name fifty times more.
    What an import executes, such as a constant, matters to all tests that reach anything of its file. So may what is
    measured in no process, as a plugin of pytest inside a test; a file of which nothing is measured has the tests of
    its name. ``seconds``: of each test. Those that are returned take at most ``most`` together, or it is one that takes
    longer.
    """
    files = tuple(sorted({file for file, _ in places}))
    found = {test for file, line in places for test in _reaching(record, file, line) if not test.startswith(READING)}
    turns: dict[str, tuple[float, ...]] = {}
    ranks = Counter[str]()
    for test in sorted(found, key=lambda each: (seconds[each], each)):
        ranks[of := test.partition("::")[0]] += 1
        turns[test] = (ranks[of] * _steps(of, files), seconds[test])
    chosen: list[str] = []
    for test in sorted(turns, key=turns.__getitem__):
        if (most := most - seconds[test] - EACH) < 0 and chosen:
            break
        chosen.append(test)
    return tuple(sorted(chosen[:MOST], key=seconds.__getitem__))


def _reaching(record: Record, file: str, line: int) -> list[str]:
    try:
        first, tests = record.covering(file, line)
    except ValueError:  # the file is not measured, as the examples, or begins with comments
        return []
    if tests and not record.imports(file, first):
        return tests
    return record.of_file(file) or [test for test in record.tests if _has_name_of(test.partition("::")[0], file)]


def _has_name_of(test_file: str, file: str) -> bool:
    return Path(test_file).stem == f"test_{Path(file).stem}"


@cache
def _steps(test_file: str, files: tuple[str, ...]) -> float:
    if any(_has_name_of(test_file, file) for file in files):
        return 0.02
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
