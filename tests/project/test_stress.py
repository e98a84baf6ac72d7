"""Many worlds and many kills: leftovers are found, and a launcher leaves nothing."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from tests import stress

pytestmark = pytest.mark.long


def test_worlds_leave_nothing() -> None:
    assert stress.worlds(3) == []


def test_what_a_world_leaves_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    number = iter(range(9))

    def careless() -> None:
        if next(number):  # the first one brings what stays for good
            Path(tempfile.mkdtemp(prefix="world-"), "log").touch()
            threading.Thread(target=over.wait, name="left over", daemon=True).start()

    monkeypatch.setattr(stress, "one_world", careless)
    monkeypatch.setattr("tests.support.own_process.GRACE", 0.1)
    left = stress.worlds(1)
    over.set()
    assert [line.partition(" ")[0] for line in left] == ["thread", "temporary"], left


def test_a_command_that_is_killed_leaves_no_process() -> None:
    assert [stress.run_command(moment, signal.SIGKILL)[1] for moment in (0.3, 2.5)] == [[], []]


def test_what_a_killed_command_leaves_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves = "import subprocess, time; subprocess.Popen(['sleep', '3']); time.sleep(60)"
    monkeypatch.setattr(stress, "COMMAND", (sys.executable, "-c", leaves))
    monkeypatch.setattr("faults.testing.leak_account.GRACE", 0.1)
    (left,) = stress.run_command(1.5, signal.SIGTERM)[1]
    assert left.endswith("sleep 3")
