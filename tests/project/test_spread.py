"""The tests of a file go to one worker, those of a long file to several, and the longest begin first."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.tiers import spread
from tests.tiers.spread import listed, parts, recorded

ROOT = Path(__file__).parents[2]
TIMES = """2.0 b.py::test_1
3.0 b.py
30.0 long.py::test_1[x]
20.0 long.py::test_2
4.0 long.py::test_3
6.0 long.py
"""


def test_the_files_are_there() -> None:
    assert [file for file in recorded() if not (ROOT / file).is_file()] == []
    assert len(recorded()) > 50


def test_a_long_file_is_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "SECONDS", tmp_path / "seconds.txt")
    monkeypatch.setattr(spread, "recorded", recorded.__wrapped__)
    spread.SECONDS.write_text(TIMES)
    names, seconds = parts()
    assert seconds == {"b.py": 5.0, "long.py::test_1[x]": 30.0, "long.py::test_2": 24.0, "long.py": 6.0}
    assert names["long.py::test_3"] == "long.py::test_2"


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
    print("in", {name!r}, n, os.getpid())
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project of three files, of which `long` has three parts and `b` takes longest as it is."""
    for folder in ("tests", "tests/tiers"):
        (pytester.path / folder).mkdir()
        (pytester.path / folder / "__init__.py").touch()
    for name in ("a", "b", "long"):
        (pytester.path / "tests" / f"test_{name}.py").write_text(SUITE.format(name=name))
    (pytester.path / "tests/tiers/spread.py").write_text(Path(spread.__file__).read_text())
    times = [f"{20 + n}.0 tests/test_long.py::test_it[{n}]" for n in range(2)]
    (pytester.path / "tests/tiers/seconds.txt").write_text("\n".join(["40.0 tests/test_b.py", *times, ""]))
    pytester.makeconftest("pytest_plugins = ['tests.tiers.spread']")
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> list[list[str]]:
    """Run the tests, which pass. Return what each said: file, number and worker."""
    result = project.runpytest_subprocess("-p", "no:cacheprovider", *arguments, timeout=60)
    assert result.ret == 0
    return [line.split()[1:] for line in result.stdout.lines if line.startswith("in ")]


@pytest.mark.long
class TestWorkers:
    def test_each_takes_whole_parts(self, project: pytest.Pytester) -> None:
        said = run(project, "-n2", "-rA")
        assert len(said) == 27
        for part in (("a", "012345678"), ("b", "012345678"), ("long", "2345678")):
            assert len({pid for name, number, pid in said if name == part[0] and number in part[1]}) == 1
        assert len({pid for _, _, pid in said}) == 2

    def test_what_takes_longest_comes_first(self, project: pytest.Pytester) -> None:
        said = [(name, number) for name, number, _ in run(project, "-n1", "-rA") if number in "013"]
        assert [name for name, _ in said] == ["b"] * 3 + ["long"] * 2 + ["a"] * 3 + ["long"]
        assert said[3:5] == [("long", "1"), ("long", "0")]

    def test_the_recorded_seconds_are_the_tests_own(self, project: pytest.Pytester) -> None:
        slow = "import time\ndef test_slow():\n    time.sleep(1.2)\n"
        (project.path / "tests" / "test_slow.py").write_text(slow)
        run(project, "-n2", "--record-seconds")
        (line,) = (project.path / "tests/tiers/seconds.txt").read_text().splitlines()
        seconds, _, test = line.partition(" ")
        assert test == "tests/test_slow.py::test_slow"
        assert float(seconds) >= 1.2
