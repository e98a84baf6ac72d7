"""Processes that must not outlive this one end with it, for whatever reason it ends, and no other process does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from faults.run.leftovers import SHARED, is_running
from faults.script.script import tied_environment
from tests.support.processes import children_of, end, left_after

PROGRAM = """
import os, subprocess, sys, threading
from faults.script.script import tied_environment
command = sys.argv[1:]
with tied_environment() as variables:
    process = subprocess.Popen(command, env={**os.environ, **variables}, start_new_session=True, stdout=subprocess.PIPE)
    process.stdout.readline()
    print(process.pid, flush=True)
    sys.stdin.read()
"""
ALONE = ["sh", "-c", "echo; exec sleep 1000"]
LEADS = ["sh", "-c", "setsid sleep 1000 & env -i sleep 1000 & echo; wait"]


@contextmanager
def launcher(command: Sequence[str]) -> Iterator[tuple[subprocess.Popen[str], set[int]]]:
    """Start a process that starts this command tied to itself, and yield it with the pids of the tied processes."""
    program, pipe, root = [sys.executable, "-c", PROGRAM, *command], subprocess.PIPE, Path(__file__).parents[2]
    with subprocess.Popen(program, text=True, start_new_session=True, stdin=pipe, stdout=pipe, cwd=root) as process:
        started = set[int]()
        try:
            assert process.stdout is not None
            tied = int(process.stdout.readline())
            started |= {tied, *children_of(tied)}
            yield process, started
        finally:
            process.kill()
            end(started)


@pytest.mark.parametrize(("command", "kill"), [(ALONE, os.killpg), (LEADS, os.kill)], ids=["a whole group", "one"])
def test_tied_processes_end_with_a_process_that_is_killed(
    command: Sequence[str], kill: Callable[[int, int], None]
) -> None:
    """Their descendants end, too: those in a session of their own, and those without the environment."""
    with launcher(command) as (process, started):
        assert len(started) == (1 if command is ALONE else 3)
        kill(process.pid, signal.SIGKILL)
        process.wait(10)
        assert left_after(started, 3) == set()


def test_shared_memory_of_tied_processes_is_removed() -> None:
    """Their resource tracker has the time to do so."""
    program = """if True:
        import multiprocessing, signal
        lock = multiprocessing.get_context("spawn").Lock()
        print(flush=True)
        signal.pause()
    """
    with launcher([sys.executable, "-W", "ignore", "-c", program]) as (process, started):
        lines = [line for pid in started for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
        inodes = {line.split()[4] for line in lines if str(SHARED) in line}
        (name,) = (each for each in SHARED.iterdir() if str(each.lstat().st_ino) in inodes)
        process.kill()
        assert left_after(started, 10) == set()
    assert not name.exists()


def test_a_process_that_has_just_been_started_is_ended_with_the_block() -> None:
    """For a moment after `Popen` returns, the kernel has not set the new program's environment yet."""
    for _ in range(10):
        with tied_environment() as variables:
            tied = subprocess.Popen(["sleep", "1000"], env={**os.environ, **variables})
        try:
            assert tied.wait(0.5) == -signal.SIGKILL
        finally:
            tied.kill()
            tied.wait()


def test_no_other_process_is_ended() -> None:
    """Not even one with a variable whose name ends with the name that is looked for."""
    with tied_environment(), tied_environment() as variables:
        tied = subprocess.Popen(["sleep", "1000"], env={**os.environ, **variables})
        longer = {f"A_{name}": value for name, value in variables.items()}
        other = subprocess.Popen(["sleep", "1000"], env={**os.environ, **longer})
    try:
        assert tied.wait(10) == -signal.SIGKILL
        assert is_running(other.pid)
    finally:
        for each in (tied, other):
            each.kill()
            each.wait()


# It may kill nobody: an attempt is an error.
IDLE = """
import os
from faults.script import parent_watcher
parent_watcher.SECONDS, parent_watcher._YOUNG = 1000.0, {}
parent_watcher.os.kill = None
if {} and os.geteuid() == 0:
    os.setuid(65534)
parent_watcher.main("FAULTS_OF_NOBODY_AT_ALL")
"""


@pytest.mark.parametrize(("young", "other"), [(1000.0, False), (1000.0, True), (0.0, True)])
def test_nobody_is_waited_for_if_there_is_nothing_to_end(young: float, other: bool) -> None:
    """Nor a process that has its environment, however young it is, nor one of another user, whose environment cannot be
    seen."""
    program = IDLE.format(young, other)
    subprocess.run([sys.executable, "-c", program], stdin=subprocess.DEVNULL, timeout=20, check=True)
