"""Choose the tests for a bug: the shortest of those that reach its line, as many as fit into a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.coverage.record import Record
from tests.tiers.spread import recorded

# Seconds of a test that is too short to be recorded, and the most tests of a bug.
SHORT, MOST = 0.15, 400
# Its tests read the sources as text, and so notice any change of a line with a planted bug.
READING = "tests/project/test_mutants.py"


def nearest(record: Record, file: str, line: int, seconds: Mapping[str, float], most: float) -> tuple[str, ...]:
    """Return the tests that reach a line, the shortest first. They are chosen of each test file in turn, fifty times as
    many of the one with the source's name.

    What an import executes, such as a constant, matters to all tests that reach anything of its file. So may what is
    measured in no process, as a plugin of pytest inside a test; a file of which nothing is measured has the tests of
    its name. ``seconds``: of each test. Those that are returned take at most ``most`` together, or it is one that takes
    longer.
    """
    found = [test for test in _reaching(record, file, line) if not test.startswith(READING)]
    turns: dict[str, tuple[float, ...]] = {}
    ranks = Counter[str]()
    for test in sorted(found, key=lambda each: (seconds[each], each)):
        ranks[of := test.partition("::")[0]] += 1
        turns[test] = (ranks[of] * (0.02 if _has_name_of(of, file) else 1.0), seconds[test])
    chosen: list[str] = []
    for test in sorted(turns, key=turns.__getitem__):
        if (most := most - seconds[test]) < 0 and chosen:
            break
        chosen.append(test)
    return tuple(sorted(chosen[:MOST], key=seconds.__getitem__))


def _reaching(record: Record, file: str, line: int) -> list[str]:
    try:
        first, tests = record.covering(file, line)
    except ValueError:  # the file begins with comments
        return []
    if tests and not record.imports(file, first):
        return tests
    return record.of_file(file) or [test for test in record.tests if _has_name_of(test.partition("::")[0], file)]


def _has_name_of(test_file: str, file: str) -> bool:
    return Path(test_file).stem == f"test_{Path(file).stem}"


def seconds_of(tests: Iterable[str]) -> dict[str, float]:
    """Return each test's recorded seconds."""
    return {test: recorded().get(test.partition("::")[0], {}).get(test, SHORT) for test in tests}
