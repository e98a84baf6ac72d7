"""Tables of several runs, with measured times, refused options and a run that fails; and their pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reference.cli.table_command
from reference.batch_reinforce import Case
from reference.cli.main import main
from reference.cli.options import BadInput
from reference.cli.table_command import (
    Clock,
    Times,
    compare_batching,
    draw,
    over_splits,
    several,
    timed,
)
from reference.pipeline import Case as Pipeline


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the command runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_name_that_is_given_decides_the_format(tmp_path: Path) -> None:
    """It may link to a file with another name. A line alone needs no legend."""
    (tmp_path / "figure.svg").symlink_to("figure.txt")
    draw(tmp_path / "figure.svg", {"batched": [(1.0, 2.0), (2.0, 2.5)]}, x="observers", y="seconds")
    text = (tmp_path / "figure.txt").read_text()
    assert text.startswith("<?xml")
    assert "<!-- batched -->" not in text


FAST = ["--steps", "2", "--n-steps", "5"]


def compared(given: dict[str, Any], max_observers: int | None) -> Any:
    return compare_batching(Case, given, {"compare_batching": True, "max_observers": max_observers})


def test_the_table_has_both_modes_from_one_observer_on() -> None:
    grid = compared({"steps": 3}, 2)
    wanted = [(n, way, n, way == "batched", 3) for n in (1, 2) for way in ("batched", "unbatched")]
    assert [(n, way, case.observers, case.batch, case.steps) for n, way, case in grid.cells()] == wanted
    assert list(compared({}, None).rows) == list(range(1, 11))
    assert grid.columns() == [
        "observers",
        "batched seconds",
        "unbatched seconds",
        "batched seconds per episode",
        "unbatched seconds per episode",
    ]


def test_the_table_has_one_row_per_number_of_splits() -> None:
    grid: Any = over_splits(Pipeline, {"image_w": 32}, {"splits": [1, 4], "small": True})
    cases = [case for _, _, case in grid.cells()]
    assert cases == [Pipeline(num_split=n, batch_size=16, image_w=32, image_h=64) for n in (1, 4)]
    assert grid.columns() == ["splits", "seconds", "seconds per batch"]
    small: Any = over_splits(Pipeline, {}, {"splits": [1], "small": True})
    assert small.rows == {1: {"": Pipeline(num_split=1, batch_size=16, image_w=64, image_h=64)}}
    full: Any = over_splits(Pipeline, {}, {"splits": [2], "small": False})
    assert full.rows == {2: {"": Pipeline(num_split=2)}}
    assert over_splits(Pipeline, {}, {"splits": None, "small": False}) is None
    with pytest.raises(BadInput, match=r"^--small needs --splits$"):
        over_splits(Pipeline, {}, {"splits": None, "small": True})
    with pytest.raises(BadInput, match=r"^--num-split cannot be given with --splits, which sets it$"):
        over_splits(Pipeline, {"num_split": 2}, {"splits": [1], "small": False})
    with pytest.raises(BadInput, match=r"^--small cannot be given with --arithmetic exact, whose images are smaller$"):
        over_splits(Pipeline, {"arithmetic": "exact", "image_w": 8}, {"splits": [1], "small": True})


def test_an_option_takes_several_numbers_with_commas() -> None:
    assert several("1,2,8") == [1, 2, 8]
    for text in ("", "1,", "0", "1,-2", "2,2", "a", "²"):
        with pytest.raises(Exception, match="must"):
            several(text)


Refused = Callable[[str], str]


@pytest.fixture
def refused(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Refused:
    """A function that gives the command options of a table which start nothing, and returns what it says."""
    monkeypatch.setattr("reference.cli.table_command.launch", lambda *_, **options: pytest.fail("started"))

    def told(options: str) -> str:
        assert main(["run", "batch_reinforce", *options.split()]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1
        return captured.err.removeprefix("error: ").rstrip("\n")

    return told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--max-observers 3", "--max-observers needs --compare-batching"),
        ("--compare-batching --max-observers 0", "must be a whole number, at least 1, got '0'"),
        ("--compare-batching --max-observers 256", "observers must be at most 255, got 256"),
        ("--compare-batching --observers 3", "--observers cannot be given with --compare-batching"),
        ("--compare-batching --no-batch", "--batch cannot be given with --compare-batching"),
        ("--compare-batching --save x", "--save is for one run"),
        ("--compare-batching --verify", "--verify is for one run"),
        ("--compare-batching --resume x", "--resume is for one run"),
        ("--compare-batching --optional-checkpoints", "--optional-checkpoints is for one run"),
        ("--compare-batching --deadline 0", "a deadline is a positive number"),
        ("--compare-batching --picture x.txt", "cannot draw x.txt"),
        ("--compare-batching --picture no/x.png", "cannot write no/x.png: No such file or directory"),
        ("--compare-batching --env NoSuch-v1", "env must be a gymnasium environment"),
        ("--picture x.png", "--picture is for a table of several runs, got options for one run"),
    ],
)
def test_bad_options_of_a_table_start_nothing(arguments: str, message: str, refused: Refused, place: Path) -> None:
    assert message in refused(arguments)
    assert not list(place.iterdir())


def test_a_table_is_refused_under_torchrun(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert "without torchrun" in refused("--compare-batching")


def rows_of(output: str) -> list[list[str]]:
    lines = [line for line in output.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def test_a_finished_table_is_printed_and_drawn(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Real worlds, up to two observers."""
    options = ["--compare-batching", "--max-observers", "2", "--picture", "times.svg", *FAST]
    assert main(["run", "batch_reinforce", *options]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].strip() == "batch_reinforce"
    rows = rows_of(out)
    assert [row[0] for row in rows] == ["1", "2"]
    assert all(float(cell) > 0 for row in rows for cell in row[1:])
    assert "picture saved to times.svg" in out
    drawn = (place / "times.svg").read_text()
    for word in ("batch_reinforce", "observers", "seconds", "batched", "unbatched"):
        assert f"<!-- {word} -->" in drawn


def test_an_earlier_picture_is_not_replaced(refused: Refused, place: Path) -> None:
    """It is refused before anything starts."""
    (place / "batch_reinforce.png").write_text("an earlier one")
    said = refused("--compare-batching")
    assert said.endswith("batch_reinforce.png exists and is not replaced, wanted another file by --picture FILE")
    assert (place / "batch_reinforce.png").read_text() == "an earlier one"


def test_a_run_that_fails_ends_the_table(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(case: Any, deadline: float, report: object) -> Times:
        return Times(1.5, None) if case.observers == 1 else timed(case, 0.001)

    monkeypatch.setattr(reference.cli.table_command, "timed", measured)
    assert main(["run", "batch_reinforce", "--compare-batching", "--max-observers", "3", *FAST]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("batch_reinforce failed:\n")
    assert "1.50" in captured.out
    assert not list(place.iterdir())


def test_an_interrupted_table_is_printed_as_far_as_it_came(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(case: Any, deadline: float, report: object) -> Times:
        if (case.observers, case.batch) == (2, False):
            raise KeyboardInterrupt
        return Times(2.5, 0.25) if case.batch else Times(1.5, None)

    monkeypatch.setattr(reference.cli.table_command, "timed", measured)
    monkeypatch.setattr(reference.cli.table_command, "warm_up", lambda: None)
    with pytest.raises(KeyboardInterrupt):
        main(["run", "batch_reinforce", "--compare-batching", "--max-observers", "2", *FAST])
    assert rows_of(capsys.readouterr().out) == [["1", "2.50", "1.50", "0.250", "-"]]
    assert not list(place.iterdir())


def test_the_clock_takes_a_steps_first_report() -> None:
    """It takes the time when the step was made, not when the report came."""
    clock = Clock(None)
    assert clock.median() is None
    for role, step, made in (("a", 1, 1.0), ("b", 1, 1.5), ("a", 2, 2.0), ("b", 2, 3.0), ("b", 3, 5.0), ("a", 4, 5.5)):
        clock(role, {"step": step, "time": made})
    assert clock.times == [1.0, 2.0, 5.0, 5.5]
    assert clock.median() == 1.0
