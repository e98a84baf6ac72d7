"""What exists before and after a test: processes and shared memory."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from faults.run.leftovers import SHARED, ends_by
from faults.testing import leak_account
from faults.testing.leak_account import Accounting


def test_only_what_has_begun_since_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shared memory that was made anew under its old name has begun since."""
    monkeypatch.setattr(leak_account, "GRACE", 0.05)
    again, old = (SHARED / f"faults_test_{os.getpid()}_{each}" for each in ("again", "old"))
    with ExitStack() as undo:

        def sleeper() -> int:
            process = undo.enter_context(subprocess.Popen(["sleep", "1000"]))
            undo.callback(process.kill)
            return process.pid

        again.write_bytes(b"1")
        undo.callback(again.unlink)
        sleeper()
        accounting = Accounting("none")
        assert accounting.left() == []
        again.rename(old)  # so that its inode is not free for the new one
        undo.callback(old.unlink)
        again.write_bytes(b"2")
        wanted = [f"process {sleeper()}: sleep 1000", *(f"shared memory {each.name}" for each in (again, old))]
        assert accounting.left() == wanted


def test_memory_that_the_tracker_of_another_run_removes_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of another run is killed, and its resource tracker goes on only after the first look."""
    accounting = Accounting("none")
    program = """if True:
        import multiprocessing, os, signal
        lock = multiprocessing.get_context("spawn").Lock()
        print(os.getpid(), multiprocessing.resource_tracker._resource_tracker._pid, flush=True)
        signal.pause()
    """
    command = ["setsid", "--fork", sys.executable, "-W", "ignore", "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as forking:
        assert forking.stdout is not None
        owner, tracker = map(int, forking.stdout.readline().split())
    os.kill(tracker, signal.SIGSTOP)
    os.kill(owner, signal.SIGKILL)
    looks, pause = 0, time.sleep

    def go_on() -> None:
        with suppress(ProcessLookupError):
            os.kill(tracker, signal.SIGCONT)

    def look_again(seconds: float) -> None:
        nonlocal looks
        looks += 1
        go_on()
        pause(seconds)

    try:
        monkeypatch.setattr("time.sleep", look_again)
        assert accounting.left() == []
    finally:
        go_on()
    assert looks, "the memory was not there at the first look"


@pytest.mark.parametrize("has_tracker", [False, True], ids=["ends", "is killed"])
def test_memory_of_another_run_that_ends_during_a_look_is_nobodys(
    has_tracker: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It removes its memory before it ends; or it is killed, and its resource tracker does. The look is the second one,
    after which there need not be another."""
    accounting, is_ours, own = Accounting("none"), Accounting._is_ours, SHARED / f"faults_test_{os.getpid()}_own"
    program = """if True:
        import multiprocessing, os, signal
        lock = multiprocessing.get_context("spawn").Lock()
        print(os.getpid(), f"sem.{lock._semlock.name[1:]}", flush=True)
        signal.pause()
    """
    command = ["setsid", "--fork", sys.executable, "-W", "ignore", "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as forking:
        assert forking.stdout is not None
        pid, name = forking.stdout.readline().split()

    def end() -> None:
        if not has_tracker:
            (SHARED / name).unlink(missing_ok=True)
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
        assert ends_by(int(pid), time.monotonic() + 20)

    def ends_first(accounting: Accounting, memory: tuple[str, int]) -> bool:
        end()
        return is_ours(accounting, memory)

    def before_the_second() -> None:
        own.unlink()
        monkeypatch.setattr(Accounting, "_is_ours", ends_first)

    if not has_tracker:
        monkeypatch.setattr(leak_account, "is_tracker", lambda pid: False)
    own.write_bytes(b"1")
    try:
        monkeypatch.setattr("gc.collect", before_the_second)
        assert accounting.left() == []
    finally:
        own.unlink(missing_ok=True)
        end()


def test_a_process_may_have_a_name_that_is_no_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(leak_account, "GRACE", 0.05)
    memory, accounting = SHARED / f"faults_test_{os.getpid()}_beside", Accounting("none")
    program = shutil.copy(os.fsencode(shutil.which("sleep") or ""), os.fsencode(tmp_path) + b"/\xff")
    with ExitStack() as undo:
        process = undo.enter_context(subprocess.Popen([program, b"1000"]))
        undo.callback(process.kill)
        memory.write_bytes(b"1")
        undo.callback(memory.unlink)
        left = accounting.left()
    assert [line.partition(":")[0] for line in left] == [f"process {process.pid}", f"shared memory {memory.name}"]


def test_what_another_run_has_at_the_same_time_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that no process of this run has started, and the memory that it has open."""
    monkeypatch.setattr(leak_account, "GRACE", 0.05)
    accounting = Accounting("none")
    memory = SHARED / f"faults_test_{os.getpid()}_stranger"
    memory.write_bytes(b"1")
    program = "import mmap, os, signal; mapped = mmap.mmap(0, 0); print(os.getpid(), flush=True); signal.pause()"
    command = ["setsid", "--fork", sys.executable, "-c", program]
    with memory.open("r+b") as file, subprocess.Popen(command, stdin=file, stdout=subprocess.PIPE) as forking:
        assert forking.stdout is not None
        pid = int(forking.stdout.readline())
    try:
        assert accounting.left() == []
    finally:
        os.kill(pid, signal.SIGKILL)
        memory.unlink()
