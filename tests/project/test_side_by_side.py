"""Commands side by side: their output, their priority, and the common exit status."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.side_by_side import NICER, main
from tests.support.processes import children_of, left_after


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def python(code: str) -> str:
    return f"python -c {shlex.quote(code)}"


def test_each_prints_in_its_turn_and_all_have_succeeded(capfd: pytest.CaptureFixture[str]) -> None:
    assert main([python(f"print({word!r})") for word in ("first", "second", "third")]) == 0
    printed = capfd.readouterr().out.splitlines()
    assert printed[:3] == ["first", "second", "third"]
    assert printed[3:6] == [f"exit status 0: {python(f'print({word!r})')}" for word in ("first", "second", "third")]
    assert printed[-1].startswith("all of them together: ")


def test_commands_run_at_once(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Each waits for the other."""
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    assert main([python(f"open({pipe!r}, 'w')"), python(f"open({pipe!r})")]) == 0


@pytest.mark.parametrize("failing", [0, 1])
def test_one_command_that_fails_fails_them_all(failing: int, capfd: pytest.CaptureFixture[str]) -> None:
    commands = [python("pass"), python("pass")]
    commands[failing] = python("import sys; print('no', file=sys.stderr); sys.exit(3)")
    assert main(commands) == 1
    said = capfd.readouterr()
    assert f"exit status 3: {commands[failing]}" in said.out.splitlines()
    assert "no\n" in said.out + said.err


def test_the_others_leave_the_first_its_time(capfd: pytest.CaptureFixture[str]) -> None:
    own = os.nice(0)
    assert main([python("import os; print(os.nice(0))")] * 2) == 0
    assert capfd.readouterr().out.splitlines()[:2] == [str(own), str(min(19, own + NICER))]


def test_ending_it_ends_all_commands() -> None:
    endless = python("import os, sys, time; print(os.getpid(), file=sys.stderr, flush=True); time.sleep(1000)")
    command = [sys.executable, "-m", "tests.side_by_side", endless, "python -c 'import time; time.sleep(1000)'"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = int(process.stderr.readline())
        others = {first, *children_of(process.pid)}
        process.terminate()
        assert process.wait(10) == 130
    assert left_after(others, 10) == set()
