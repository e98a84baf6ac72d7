"""What exists before and after a test: processes and shared memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack

import pytest

from faults.run.leftovers import SHARED
from faults.testing import leak_account
from faults.testing.leak_account import Accounting


def test_only_what_has_begun_since_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shared memory that was made anew under its old name has begun since."""
    monkeypatch.setattr(leak_account, "GRACE", 0.05)
    monkeypatch.setattr(leak_account, "REMOVAL", 0.05)
    name = f"faults_test_{os.getpid()}"
    with ExitStack() as undo:

        def begin(what: str) -> subprocess.Popen[bytes]:
            (SHARED / f"{name}_{what}").write_bytes(b"1")
            undo.callback((SHARED / f"{name}_{what}").unlink, missing_ok=True)
            process = undo.enter_context(subprocess.Popen(["sleep", "1000"]))
            undo.callback(process.kill)
            return process

        begin("one")
        begin("two")
        accounting = Accounting("none")
        assert accounting.left() == []
        again, old = SHARED / f"{name}_two", SHARED / f"{name}_old"
        again.rename(old)  # so that its inode is not free for the new one
        undo.callback(old.unlink)
        again.write_bytes(b"2")
        third = begin("three")
        assert accounting.left() == [
            f"process {third.pid}: sleep 1000",
            *(f"shared memory {name}_{each}" for each in ("old", "three", "two")),
        ]


def test_memory_that_is_removed_when_its_process_has_ended_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SHARED / f"faults_test_{os.getpid()}_late"
    monkeypatch.setattr(leak_account, "REMOVAL", 60.0)  # on a busy machine a look takes more than a second
    with ExitStack() as undo:
        accounting = Accounting("none")
        undo.callback(memory.unlink, missing_ok=True)
        memory.write_bytes(b"1")
        monkeypatch.setattr("time.sleep", lambda _: memory.unlink())  # as Python's tracker does meanwhile
        assert accounting.left() == []


STRANGER = """
import os, signal
from multiprocessing import resource_tracker, shared_memory

memory = shared_memory.SharedMemory(create=True, size=8)
resource_tracker.unregister(memory._name, "shared_memory")  # the test removes it
print(os.getpid(), memory.name, flush=True)
signal.pause()
"""


def test_what_another_run_has_at_the_same_time_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that no process of this run has started, and the memory that it has open."""
    monkeypatch.setattr(leak_account, "GRACE", 0.05)
    monkeypatch.setattr(leak_account, "REMOVAL", 0.05)
    accounting = Accounting("none")
    said, told = os.pipe()
    subprocess.run(["setsid", "--fork", sys.executable, "-c", STRANGER], stdout=told, check=True)
    os.close(told)
    with os.fdopen(said) as lines:
        pid, name = lines.readline().split()
    try:
        assert accounting.left() == []
    finally:
        os.kill(int(pid), signal.SIGKILL)
        (SHARED / name).unlink()
