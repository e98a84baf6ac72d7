"""The soak over a small suite: the seed decides order and examples, and every failure is counted and named."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.soak import Round, main, soaked, summary

ROOT = Path(__file__).parents[2]
GIVEN = ("-p", "faults.pytest_plugin", "test_sometimes.py")


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own with the suite, whose profiles are this project's."""
    (tmp_path / "test_sometimes.py").write_text((ROOT / "tests" / "suites" / "sometimes.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(
        "from hypothesis import settings\nsettings.register_profile('seeded', derandomize=False, database=None)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    return tmp_path


def said(suite: Path) -> list[str]:
    """The output of the last round's tests, in the order in which they ran."""
    lines = (suite / "said").read_text().splitlines()
    (suite / "said").unlink()
    return lines


@pytest.mark.long
def test_the_seed_decides_order_and_examples(suite: Path) -> None:
    seen = []
    for seed in (1, 1, 2):
        done = soaked(seed, suite / "out", GIVEN)
        assert done.ran == 5, done.said
        assert done.failed == (), done.said
        assert done.wrong == (), done.said
        seen.append(said(suite))
    assert seen[0] == seen[1]
    orders = {tuple(line for line in lines if "drawn" not in line) for lines in seen}
    assert {frozenset(order) for order in orders} == {frozenset({"one", "two", "three"})}
    assert len(orders) > 1
    assert len({next(line for line in lines if "drawn" in line) for lines in seen}) == 2


@pytest.mark.long
def test_failures_are_counted_and_named_with_their_seeds(
    suite: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ODD", "1")
    assert main(["--rounds", "2", "--seed", "5", "--keep", str(suite / "out"), *GIVEN]) == 1
    lines = capfd.readouterr().out.splitlines()
    assert "FAILED test_sometimes.py::test_odd: with seed 5" in lines
    end = r"2 rounds, 12 tests, 1 failures, \d\.\d min: 83\.333 failures per thousand tests"
    assert re.fullmatch(end, lines[-1])
    assert (
        len([line for line in lines if re.fullmatch(r"round \d of 2: seed \d, 6 tests, [01] failures, \d+ s", line)])
        == 2
    )
    assert sorted(path.name for path in (suite / "out").iterdir()) == sorted(
        f"{seed}.{ending}" for seed in (5, 6) for ending in ("txt", "xml")
    )


@pytest.mark.long
def test_what_a_round_leaves_is_a_failure(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAVE", "1")
    monkeypatch.setattr("faults.testing.leak_account.GRACE", 0.5)
    done = soaked(1, suite / "out", GIVEN)
    assert done.ran == 6
    assert done.failed == ()
    assert len(done.wrong) == 1
    left = re.fullmatch(r"left process (\d+): sleep 61", done.wrong[0])
    assert left, done.wrong
    os.kill(int(left[1]), signal.SIGKILL)


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "wrong"),
    [(("-k", "nobody"), "pytest ended with 5"), (("--no-such-option",), "pytest ended with 4")],
)
def test_a_round_in_which_nothing_runs_is_a_failure(suite: Path, given: tuple[str, ...], wrong: str) -> None:
    assert soaked(1, suite / "out", [*GIVEN, *given]).wrong == (wrong,)


def test_a_round_has_a_deadline(suite: Path) -> None:
    begun = time.monotonic()
    assert soaked(1, suite / "out", GIVEN, limit=0.01).wrong == ("not done after 0 s",)
    assert time.monotonic() - begun < 10


def test_the_summary_of_no_failures() -> None:
    assert summary([Round(1, 1500, seconds=90), Round(2, 1500, seconds=90)]) == [
        "2 rounds, 3000 tests, 0 failures, 3.0 min: 0.000 failures per thousand tests"
    ]


def test_no_rounds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--rounds", "0"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("--rounds must be at least 1, got 0")
