"""What exists before and after a test: processes and shared memory."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from faults.run import leftovers
from faults.run.leftovers import SHARED, ends_by
from faults.testing import leak_account
from faults.testing.leak_account import Accounting
from tests.support.processes import end


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


def test_a_number_in_the_random_name_of_a_semaphore_is_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Process 1 is always another run's."""
    monkeypatch.setattr(leak_account, "GRACE", 0.05)
    made, accounting = SHARED / f"sem.mp-{os.getpid()}_1", Accounting("none")
    made.touch()
    try:
        assert accounting.left() == [f"shared memory {made.name}"]
    finally:
        made.unlink()


@contextmanager
def stranger(mark: str = "") -> Iterator[tuple[int, int, Path]]:
    """Yield a process of another run, its resource tracker, and its shared memory. ``mark``: it is of that run."""
    program = """if True:
        import multiprocessing, os, signal
        lock = multiprocessing.get_context("spawn").Lock()
        tracker = multiprocessing.resource_tracker._resource_tracker._pid
        print(os.getpid(), tracker, f"sem.{lock._semlock.name[1:]}", flush=True)
        signal.pause()
    """
    command = ["setsid", "--fork", sys.executable, "-W", "ignore", "-c", program]
    env, pipe = os.environ | ({mark: "1"} if mark else {}), subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=env) as forking:
        assert forking.stdout is not None
        pid, tracker, name = forking.stdout.readline().split()
    try:
        yield int(pid), int(tracker), SHARED / name
    finally:
        end([int(pid)])
        with suppress(ProcessLookupError):
            os.kill(int(tracker), signal.SIGCONT)


@contextmanager
def within_the_second_look(monkeypatch: pytest.MonkeyPatch, then: Callable[[], object]) -> Iterator[None]:
    """Do ``then`` in the second look, after which there need not be another: when it is known what memory there is, and
    not yet who has it open. Something is left at the first look."""
    own, is_ours = SHARED / f"faults_test_{os.getpid()}_own", Accounting._is_ours
    own.touch()

    def then_look(accounting: Accounting, memory: tuple[str, int]) -> bool:
        then()
        return is_ours(accounting, memory)

    def between() -> None:
        own.unlink()
        monkeypatch.setattr(Accounting, "_is_ours", then_look)

    monkeypatch.setattr("gc.collect", between)
    try:
        yield
    finally:
        own.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("mark", "before"),
    [("", True), ("", False), ("FAULTS_TESTS_OWN", True)],
    ids=["of another run", "of another run, within a look", "of this run"],
)
def test_memory_that_a_tracker_removes_is_nobodys(mark: str, before: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process is killed, and its resource tracker goes on only after that look."""
    accounting, looks, pause = Accounting("FAULTS_TESTS_OWN"), list[bool](), time.sleep
    with stranger(mark) as (pid, tracker, memory), ExitStack() as undo:
        os.kill(tracker, signal.SIGSTOP)

        def kill() -> None:
            end([pid])
            assert ends_by(pid, time.monotonic() + 20)

        def look_again(seconds: float) -> None:
            looks.append(memory.exists())
            with suppress(ProcessLookupError):
                os.kill(tracker, signal.SIGCONT)
            pause(seconds)

        if before:
            kill()
        else:
            undo.enter_context(within_the_second_look(monkeypatch, kill))
        monkeypatch.setattr("time.sleep", look_again)
        assert accounting.left() == []
    assert looks[0], "the memory was not there at that look"


def test_memory_that_another_run_removes_within_a_look_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No resource tracker is there that could be waited for."""
    accounting = Accounting("none")
    with stranger() as (pid, _, memory):

        def leave() -> None:
            memory.unlink(missing_ok=True)
            end([pid])
            assert ends_by(pid, time.monotonic() + 20)

        monkeypatch.setattr(leak_account, "is_tracker", lambda pid: False)
        with within_the_second_look(monkeypatch, leave):
            assert accounting.left() == []
        assert not memory.exists()


def test_memory_belongs_to_the_first_number_in_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's names have the process, a random number and a counter. A process with such an id is there: the first."""
    monkeypatch.setattr(leak_account, "GRACE", 0.05)
    monkeypatch.setattr(leftovers, "SHARED", tmp_path)  # where no other worker's test finds it
    with subprocess.Popen(["true"]) as ended:
        pass
    accounting = Accounting("none")
    for name in (f"torch_{ended.pid}_7_1", f"torch_1_{ended.pid}_7"):
        (tmp_path / name).touch()
    assert accounting.left() == [f"shared memory torch_{ended.pid}_7_1"]


def test_a_folder_is_no_shared_memory() -> None:
    """Such as pytest's own, if it is told to make its folders there."""
    accounting = Accounting("none")
    with tempfile.TemporaryDirectory(dir=SHARED):
        assert accounting.left() == []


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
