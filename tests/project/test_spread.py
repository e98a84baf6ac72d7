"""The tests of a file go to one worker, those of a long file to several, and each worker imports what it runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.tiers import spread
from tests.tiers.spread import PART, Part, listed, parts, recorded

ROOT = Path(__file__).parents[2]
TIMES = """2.0 tests/test_b.py::test_1
3.0 tests/test_b.py
30.0 tests/test_long.py::test_1[x]
20.0 tests/test_long.py::test_2
4.0 tests/test_long.py::test_3
6.0 tests/test_long.py
"""


@pytest.fixture
def times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "SECONDS", tmp_path / "seconds.txt")
    spread.SECONDS.write_text(TIMES)
    monkeypatch.setattr(spread, "recorded", recorded.__wrapped__)


def test_the_files_are_there() -> None:
    assert [file for file in recorded() if not (ROOT / file).is_file()] == []
    assert len(recorded()) > 50


@pytest.mark.usefixtures("times")
class TestParts:
    def test_a_file_that_takes_less_is_one_part(self) -> None:
        assert parts("tests/test_b.py") == [Part("tests/test_b.py", 1, frozenset(), True, 5.0)]
        assert parts("tests/test_unknown.py") == [Part("tests/test_unknown.py", 1, frozenset(), True, 0.0)]

    def test_a_long_file_is_divided_and_its_last_part_has_what_is_not_recorded(self) -> None:
        found = parts("tests/test_long.py")
        assert [part.seconds for part in found] == [30.0, 24.0, 6.0]
        assert max(part.seconds for part in found[1:]) <= PART
        assert len({part.name for part in found}) == 3
        for test, number in (("test_1[x]", 0), ("test_2", 1), ("test_3", 1), ("test_1[y]", 2), ("test_new", 2)):
            assert [part.has(f"tests/test_long.py::{test}") for part in found] == [n == number for n in range(3)]


def test_what_is_recorded_goes_through_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of less than half a second count together; of a file that takes less than that nothing is recorded."""
    taken = Counter(
        {"b.py::test_1": 2.04, "b.py::test_2": 0.4, "b.py::test_3": 0.3, "a.py::test_1": 0.45, "c.py::t": 0.5}
    )
    assert listed(taken) == "2.0 b.py::test_1\n0.7 b.py\n0.5 c.py::t\n"
    monkeypatch.setattr(spread, "SECONDS", tmp_path / "seconds.txt")
    spread.SECONDS.write_text(listed(taken))
    assert recorded.__wrapped__() == {"b.py": {"b.py::test_1": 2.0, "b.py": 0.7}, "c.py": {"c.py::t": 0.5}}


SUITE = """
import os

def pytest_generate_tests(metafunc):
    metafunc.parametrize("n", range(9))

def test_it(n):
    print("in", {name!r}, os.getpid())
    assert n < 8 or {passes}
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project of three files, of which `long` has three parts and `b` takes longest as it is."""
    for folder in ("tests", "tests/tiers"):
        (pytester.path / folder).mkdir()
        (pytester.path / folder / "__init__.py").touch()
    for name in ("a", "b", "long"):
        (pytester.path / "tests" / f"test_{name}.py").write_text(SUITE.format(name=name, passes=name != "b"))
    (pytester.path / "tests/tiers/spread.py").write_text(Path(spread.__file__).read_text())
    times = [f"{20 + n}.0 tests/test_long.py::test_it[{n}]" for n in range(2)]
    (pytester.path / "tests/tiers/seconds.txt").write_text("\n".join(["40.0 tests/test_b.py", *times, ""]))
    pytester.makeconftest("pytest_plugins = ['tests.tiers.spread']")
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", "no:cacheprovider", *arguments, timeout=60)


@pytest.mark.long
class TestWorkers:
    def test_each_takes_whole_parts_and_what_fails_is_told(self, project: pytest.Pytester) -> None:
        result = run(project, "-n2", "-rA")
        result.assert_outcomes(passed=26, failed=1)
        result.stdout.fnmatch_lines("FAILED tests/test_b.py::test_it[[]8[]]*")
        said = [line.split() for line in result.stdout.lines if line.startswith("in ")]
        workers = {name: Counter(pid for _, each, pid in said if each == name) for name in ("a", "b", "long")}
        assert [sum(found.values()) for found in workers.values()] == [9, 9, 9]
        assert [len(workers[name]) for name in ("a", "b")] == [1, 1]
        assert len(workers["a"] + workers["b"] + workers["long"]) == 2

    def test_what_takes_longest_comes_first(self, project: pytest.Pytester) -> None:
        said = [line.split()[1] for line in run(project, "-n1", "-rA").stdout.lines if line.startswith("in ")]
        assert list(dict.fromkeys(said)) == ["b", "long", "a"]

    @pytest.mark.parametrize("chosen", [("-k", "test_a and 3"), ("tests/test_a.py::test_it[3]",)])
    def test_an_option_or_a_name_chooses_among_the_tests(
        self, project: pytest.Pytester, chosen: tuple[str, ...]
    ) -> None:
        run(project, "-n2", *chosen).assert_outcomes(passed=1)

    def test_a_worker_imports_only_the_files_of_its_parts(self, project: pytest.Pytester) -> None:
        for name in ("a", "b"):
            path = project.path / "tests" / f"test_{name}.py"
            path.write_text(path.read_text() + f"\nopen(f'{name}-{{os.getpid()}}', 'w').close()\n")
        run(project, "-n2", "tests")
        assert sorted(path.name.partition("-")[0] for path in project.path.glob("[ab]-*")) == ["a", "b"]

    def test_a_file_that_cannot_be_imported_is_an_error(self, project: pytest.Pytester) -> None:
        (project.path / "tests" / "test_broken.py").write_text("import no_such_module\n")
        result = run(project, "-n2")
        result.assert_outcomes(passed=26, failed=1, errors=1)
        result.stdout.fnmatch_lines("*No module named 'no_such_module'")

    def test_the_recorded_seconds_are_the_tests_own(self, project: pytest.Pytester) -> None:
        slow = "import time\ndef test_slow():\n    time.sleep(1.2)\n"
        (project.path / "tests" / "test_slow.py").write_text(slow)
        run(project, "-n2", "--record-seconds")
        (line,) = (project.path / "tests/tiers/seconds.txt").read_text().splitlines()
        seconds, _, test = line.partition(" ")
        assert test == "tests/test_slow.py::test_slow"
        assert float(seconds) >= 1.2
