"""The estimate of how long a sweep will still take."""

from __future__ import annotations

import sys
import time

import pytest

from faults.cli import progress_bar
from faults.cli.progress_bar import seconds_left


@pytest.mark.parametrize(
    ("done", "total", "elapsed", "budget", "wanted"),
    [
        (0, 10, 3.0, None, 0.0),  # nothing is known yet
        (2, 10, 3.0, None, 12.0),
        (10, 10, 30.0, None, 0.0),
        (2, 10, 3.0, 100.0, 12.0),
        (2, 10, 3.0, 5.0, 2.0),
        (2, 10, 7.0, 5.0, 0.0),  # the budget is exceeded already
    ],
)
def test_the_remaining_seconds_follow_from_the_runs_so_far(
    done: int, total: int, elapsed: float, budget: float | None, wanted: float
) -> None:
    assert seconds_left(done, total, elapsed, budget) == wanted


def test_a_line_is_printed_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The test sets the clock. No line is printed before its time."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with progress_bar.countdown("shop", 10) as tick:
        for number, seconds in enumerate([0.0, 4.9, 5.1, 9.0, 10.2]):
            now[0] = 100.0 + seconds
            tick(number)
    assert capsys.readouterr().err.splitlines() == [
        "shop: 2 of 10 runs, about 20 s left",
        "shop: 4 of 10 runs, about 15 s left",
    ]
    with progress_bar.countdown("shop", 10, budget=6) as tick:
        now[0] += 5
        tick(2)
    assert capsys.readouterr().err == "shop: 2 of 10 runs, about 1 s left\n"


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A line would not be due yet."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar.countdown("shop [/a]", 3) as tick:  # which is no markup
        tick(1)
    said = capsys.readouterr().err
    assert "1/3" in said
    assert "shop [/a]" in said
