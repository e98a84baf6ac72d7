"""Progress: lines at most every two seconds, or a bar; and nothing left behind."""

from __future__ import annotations

import io
import logging
import re
from types import SimpleNamespace
from typing import Any

import pytest

import reference.cli.progress_bar
from reference.cli.progress_bar import watch
from reference.trace import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """``now`` is what the time is."""
    found = SimpleNamespace(now=100.0)
    monkeypatch.setattr(reference.cli.progress_bar, "time", SimpleNamespace(monotonic=lambda: found.now))
    return found


def step(number: int, loss: float = 0.5, steps: int = 9) -> dict[str, Any]:
    return {"step": number, "steps": steps, "loss": loss}


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


@pytest.mark.parametrize(
    "reports",  # after so many seconds a role's step and loss, and the line that is printed
    [
        [(1.999, "ps", 1, 1.0, ""), (0.0, "ps", 9, 1.0, "")],
        [
            (2.0, "ps", 1, 1234567.0, "t: step 1 of 9, loss 1.23457e+06"),
            (1.5, "ps", 2, 0.5, ""),
            (0.5, "ps", 3, 0.25, "t: step 3 of 9, loss 0.25"),
        ],
        [
            (2.0, "a", 1, 1.0, "t: step 1 of 9, loss 1"),
            (2.0, "b", 1, 2.0, ""),
            (2.0, "a", 2, 1.0, "t: step 2 of 9, loss 1"),
            (2.0, "c", 1, 3.0, ""),
            (2.0, "c", 2, 3.0, ""),
            (2.0, "c", 3, 3.0, "t: step 3 of 9, loss 3"),
        ],
    ],
    ids=["a short run says nothing", "a long run, every two seconds", "a step once, whoever reports it first"],
)
def test_a_line_is_printed_at_most_every_two_seconds_for_a_new_step(
    reports: list[tuple[float, str, int, float, str]], clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    with watch("t") as report:
        for seconds, role, number, loss, line in reports:
            clock.now += seconds
            report(role, step(number, loss))
            assert lines(capsys) == ([line] if line else [])
    assert lines(capsys) == []


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "dumb")
    with watch("t") as report:
        clock.now += 2
        report("ps", step(1))
        assert terminal.getvalue() == "t: step 1 of 9, loss 0.5\n"


def test_logged_steps_are_shown(clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    with watch("rank 0", logged=True):
        clock.now += 2
        progress.log_step(5, 5, 0.125)
        clock.now += 2
        progress.logger.info("not a step")
        progress.logger.warning("nor this")
    assert [line for line in lines(capsys) if line.startswith("rank 0")] == ["rank 0: step 5 of 5, loss 0.125"]


@pytest.mark.parametrize("logged", [True, False])
def test_the_logger_is_left_as_it_was(logged: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Even if the block fails; the failure passes on. Steps of this process are heard only if that is asked for."""
    caplog.set_level(logging.WARNING, progress.logger.name)
    before = list(progress.logger.handlers)
    with pytest.raises(RuntimeError, match=r"^failed$"), watch("t", logged=logged):  # noqa: PT012
        assert len(progress.logger.handlers) == len(before) + logged
        assert progress.logger.level == (logging.INFO if logged else logging.WARNING)
        raise RuntimeError("failed")
    assert progress.logger.handlers == before
    assert progress.logger.level == logging.WARNING


def shown(monkeypatch: pytest.MonkeyPatch, *reports: tuple[str, dict[str, Any]]) -> tuple[str, str]:
    """All that a terminal is sent for these reports, and the same without control sequences.

    Not a fixture: between a test's setup and its call pytest puts its own standard error back.
    """
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    with watch("server") as report:
        for role, record in reports:
            report(role, record)
    with watch("rank 0", logged=True):
        progress.log_step(4, 5, 0.125)  # of one of several processes that write to this terminal: no bar
    output = terminal.getvalue()
    return output, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output)


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It has the title, the count and the newest loss, and is gone at the end: cursor up and line erased."""
    reports = ("worker1", step(3, loss=0.75, steps=7)), ("worker2", step(3, loss=99.0, steps=7))
    output, plain = shown(monkeypatch, *reports)
    assert re.search(r"server \S+ 3/7 \S+ loss 0\.75\b", plain), output
    assert "99" not in plain
    assert output.endswith("\x1b[1A\x1b[2K")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("last", [1, 9])
def test_a_bar_is_full_after_the_last_step(last: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only then is no time left."""
    _, output = shown(monkeypatch, *(("ps", step(number, steps=last)) for number in range(1, last + 1)))
    assert f" {last}/{last} 0:00:00 loss 0.5" in output, output


def test_a_bar_before_the_first_step_has_no_loss_steps_or_time(monkeypatch: pytest.MonkeyPatch) -> None:
    _, output = shown(monkeypatch)
    assert re.search(r"server .* loss -", output)
    assert "None" not in output
    assert "--:--" not in output
