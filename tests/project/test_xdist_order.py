"""The tests of a file go to one worker; those of a long file are spread by tutorial."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support import xdist_order
from tests.support.xdist_order import SPLIT, main, place, recorded, scope

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("test", "wanted"),
    [
        ("tests/reference/test_rnn.py::TestX::test_a[1-2]", "tests/reference/test_rnn.py"),
        (
            "tests/matrix/test_matrix.py::test_each_cell_has_its_expected_verdict[rnn-Slow]",
            "tests/matrix/test_matrix.py[rnn",
        ),
        (
            "tests/matrix/test_matrix.py::test_each_cell_has_its_expected_verdict[rnn-Delay-reply]",
            "tests/matrix/test_matrix.py[rnn",
        ),
        (
            "tests/reference/test_clusters.py::test_tutorials_run_on_two_hosts[rnn]",
            "tests/reference/test_clusters.py[rnn",
        ),
        ("tests/matrix/test_matrix.py::TestTheTable::test_the_page", "tests/matrix/test_matrix.py["),
    ],
)
def test_a_tests_scope_is_its_file_or_its_parameter(test: str, wanted: str) -> None:
    assert scope(test) == wanted


def test_the_files_are_there() -> None:
    files = {scope.partition("[")[0] for scope in recorded()}
    assert [file for file in sorted({*files, *SPLIT}) if not (ROOT / file).is_file()] == []


REPORT = """<testsuites><testsuite>
<testcase classname="tests.a.test_a.TestX" name="test_1" file="tests/a/test_a.py" time="0.4" />
<testcase classname="tests.a.test_a" name="test_2" file="tests/a/test_a.py" time="1.2" />
<testcase classname="tests.b.test_b" name="test_1" file="tests/b/test_b.py" time="0.9" />
<testcase classname="tests.matrix.test_matrix" name="test_cell[rnn-Slow]" file="tests/matrix/test_matrix.py" time="3" />
<testcase classname="tests.matrix.test_matrix" name="test_cell[rnn-Drop]" file="tests/matrix/test_matrix.py" time="4" />
</testsuite></testsuites>
"""


def test_what_is_recorded_is_a_sum_over_each_scope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only scopes of one second or more are recorded, longest first."""
    monkeypatch.setattr(xdist_order, "SECONDS", tmp_path / "seconds.txt")
    (tmp_path / "report.xml").write_text(REPORT)
    main([str(tmp_path / "report.xml"), str(tmp_path / "report.xml")])
    assert xdist_order.SECONDS.read_text() == (
        "14 tests/matrix/test_matrix.py[rnn\n3 tests/a/test_a.py\n2 tests/b/test_b.py\n"
    )


def test_what_takes_longest_comes_first_and_what_is_not_recorded_last() -> None:
    longest, *_, shortest = recorded()
    tests = [SimpleNamespace(nodeid=f"{scope}::test_1") for scope in ("tests/test_new.py", shortest, longest)]
    assert [each.nodeid for each in sorted(tests, key=place)] == [
        f"{scope}::test_1" for scope in (longest, shortest, "tests/test_new.py")
    ]


@pytest.mark.long
def test_two_workers_take_whole_files(pytester: pytest.Pytester) -> None:
    """The longest file comes first, whatever the names."""
    (pytester.path / "tests").mkdir()
    for folder in ("project", "support"):
        (pytester.path / "tests" / folder).mkdir()
    for name in ("a", "b", "network"):
        body = "import os\n" + "".join(f"def test_{n}():\n    print('in', {name!r}, os.getpid())\n" for n in range(9))
        (pytester.path / "tests" / f"test_{name}.py").write_text(body)
    pytester.makeconftest(
        "import pytest\nfrom tests.support.xdist_order import place, spreading\n"
        "def pytest_xdist_make_scheduler(config, log):\n    return spreading(config, log)\n"
        "def pytest_collection_modifyitems(items):\n    items.sort(key=place)\n"
    )
    for file in ("tests/support/xdist_order.py", "tests/project/junit.py"):
        (pytester.path / file).write_text((ROOT / file).read_text())
    (pytester.path / "tests" / "support" / "seconds.txt").write_text("7 tests/test_network.py\n")
    result = pytester.runpytest_subprocess("-n2", "-rP", "-p", "no:cacheprovider", timeout=60)
    result.assert_outcomes(passed=27)
    said = [line.split() for line in result.stdout.lines if line.startswith("in ")]
    workers = {name: {pid for _, each, pid in said if each == name} for name in ("a", "b", "network")}
    assert [len(pids) for pids in workers.values()] == [1, 1, 1]
    assert len(set.union(*workers.values())) == 2
