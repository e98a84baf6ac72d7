"""Where tests go: the parts of one file stay together, those of a long one are dealt out by tutorial."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.xdist_order import FIRST, SPLIT, scope

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("test", "wanted"),
    [
        ("tests/reference/test_rnn.py::TestX::test_a[1-2]", "tests/reference/test_rnn.py"),
        ("tests/matrix/test_matrix.py::test_cell[rnn-Slow]", "tests/matrix/test_matrix.py[rnn"),
        ("tests/matrix/test_matrix.py::test_cell[rnn-Delay-reply]", "tests/matrix/test_matrix.py[rnn"),
        ("tests/reference/test_clusters.py::test_on_two_hosts[rnn]", "tests/reference/test_clusters.py[rnn"),
        ("tests/matrix/test_matrix.py::TestTheTable::test_the_page", "tests/matrix/test_matrix.py["),
    ],
)
def test_scope(test: str, wanted: str) -> None:
    assert scope(test) == wanted


def test_the_files_are_there() -> None:
    assert [file for file in FIRST if not (ROOT / file).is_file()] == []
    assert set(SPLIT) <= set(FIRST)


@pytest.mark.long
def test_two_workers_take_whole_files(pytester: pytest.Pytester) -> None:
    """And the longest first, whatever their names."""
    (pytester.path / "tests").mkdir()
    for name in ("a", "b", "network"):
        body = "import os\n" + "".join(f"def test_{n}():\n    print('in', {name!r}, os.getpid())\n" for n in range(9))
        (pytester.path / "tests" / f"test_{name}.py").write_text(body)
    pytester.makeconftest(
        "import pytest\nfrom tests.support.xdist_order import place, spreading\n"
        "def pytest_xdist_make_scheduler(config, log):\n    return spreading(config, log)\n"
        "def pytest_collection_modifyitems(items):\n    items.sort(key=place)\n"
    )
    (pytester.path / "tests" / "spread.py").write_text((ROOT / "tests" / "spread.py").read_text())
    result = pytester.runpytest_subprocess("-n2", "-rP", "-p", "no:cacheprovider", timeout=60)
    result.assert_outcomes(passed=27)
    said = [line.split() for line in result.stdout.lines if line.startswith("in ")]
    workers = {name: {pid for _, each, pid in said if each == name} for name in ("a", "b", "network")}
    assert [len(pids) for pids in workers.values()] == [1, 1, 1]
    assert len(set.union(*workers.values())) == 2
