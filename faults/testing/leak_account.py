"""Check what one test leaves behind, around the test and all of its own fixtures: processes and shared memory.

RRefs and autograd contexts exist in the roles: `faults.testing.rref_leaks` asks for them.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from faults.run.leftovers import SHARED, command, ends_by, everybody, is_tracker, maker, relatives, shared_memory
from faults.testing.running_test import RunningTest
from faults.testing.settings import IDLE_WORLDS, KINDS, PROCESS_MARK, RUNNING_TEST, leaks_of
from reference.system.text import one_line

FIXTURES = {"world", "idle_world", "fresh_world", "plan", "run_dir", "_faults_plan"}
# How long processes may take to end after a test, and a resource tracker to remove what a process has left
# (seconds).
GRACE = 10.0


class Accounting:
    """The processes and the shared memory that exist before a test; `left` names those that are new after it.
    ``mark``: see `faults.run.leftovers`."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._pids, self._memory = everybody(), _memory()

    def left(self, besides: Collection[str] = ()) -> list[str]:
        """Return one line for each thing that this test left, except the kinds ``besides``. Waits at most `GRACE`."""
        if not self._processes(besides) and not self._new_memory(besides):
            return []
        gc.collect()  # what only garbage refers to does not count
        due = time.monotonic() + GRACE
        for pid in self._processes(besides):
            ends_by(pid, due)
        while True:
            trackers = _trackers()  # first, because they end when they have removed all
            memory = self._new_memory(besides)
            if not trackers or all(map(self._is_open, memory)) or time.monotonic() >= due:
                break
            time.sleep(0.05)  # nothing tells of a removed file
        return [
            *(f"process {pid}: {command(pid)}" for pid in sorted(self._processes(besides))),
            *sorted(f"shared memory {name}" for name, _ in memory),
        ]

    def _processes(self, besides: Collection[str]) -> set[int]:
        """Return the new processes of this run, but those that multiprocessing keeps for itself until the end."""
        if "processes" in besides:
            return set()
        forkserver = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
        found = relatives(everybody() - self._pids, self._mark) - {getattr(forkserver, "_forkserver_pid", None)}
        return {pid for pid in found if not is_tracker(pid)}

    def _new_memory(self, besides: Collection[str]) -> set[tuple[str, int]]:
        """Return the new shared memory of this run, without what has been removed since it was looked up: a process of
        another run that ends meanwhile no longer has it open."""
        if "memory" in besides:
            return set()
        return {each for each in _memory() - self._memory if self._is_ours(each)} & _memory()

    def _is_ours(self, memory: tuple[str, int]) -> bool:
        """Whether shared memory belongs to this run: no process of another run has made it, or has it open."""
        name, inode = memory
        strangers = everybody() - self._ours()
        return maker(name) not in strangers and not any(_has_open(pid, inode) for pid in strangers)

    def _is_open(self, memory: tuple[str, int]) -> bool:
        """Whether a process of this run has this shared memory mapped."""
        return any(_has_open(pid, memory[1]) for pid in self._ours())

    def _ours(self) -> set[int]:
        return relatives(everybody(), self._mark) | {os.getpid()}


def _memory() -> set[tuple[str, int]]:
    """Return name and inode of this user's shared memory."""
    return {(name, status.st_ino) for name, status in shared_memory()}


def _trackers() -> set[int]:
    """Return the resource trackers, which may be removing what no process has open, except this process's own."""
    own = getattr(sys.modules.get("multiprocessing.resource_tracker"), "_resource_tracker", None)
    return set(filter(is_tracker, everybody() - {getattr(own, "_pid", None)}))


def _has_open(pid: int, inode: int) -> bool:
    """Whether a process has this shared memory mapped. False for a process that this user may not inspect."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
        return any(str(SHARED) in line and line.split()[4] == str(inode) for line in lines)
    return False


@contextmanager
def account(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that has left something, once its fixtures are torn down."""
    mode, names = leaks_of(request.config), set(request.fixturenames)
    running = request.node.stash[RUNNING_TEST]
    running.idles = [*request.config.stash[IDLE_WORLDS]] if {"world", "idle_world"} & names else []
    for idle in running.idles:
        idle.begin()
    held = mode != "off" and (mode == "all" or bool(FIXTURES & names))
    left: list[str] = []
    try:
        with _unhooked(left) if mode != "off" else nullcontext(), _held(request, left) if held else nullcontext():
            yield
    finally:
        try:
            running.save()
        except OSError as error:  # such as a full disk
            left.append(one_line(f"a copy of its run that is not whole: {error}"))
    if left and not _is_interrupted(request.session):
        pytest.fail("left by this test:\n" + "\n".join(left), pytrace=False)


@contextmanager
def _held(request: pytest.FixtureRequest, left: list[str]) -> Iterator[None]:
    """Compare what exists before and after a test, and put what is new into ``left``."""
    running, allowed = request.node.stash[RUNNING_TEST], _allowed(request.node)
    accounting = Accounting(request.config.stash[PROCESS_MARK])
    worlds = _other_worlds(running)
    yield
    if _is_interrupted(request.session):
        return
    kept = [*running.kept, *(each for world in (*running.idles, *worlds) for each in world.left(allowed) or ())]
    left += [line for kind, line in kept if kind not in allowed] + accounting.left(allowed)


@contextmanager
def _unhooked(left: list[str]) -> Iterator[None]:
    """Remove a plan that a test left installed in its own process, so that it hits no other test. It counts as left."""
    before = _hooked()
    yield
    if not before and _hooked():
        sys.modules["faults.hook"].remove()
        left.append("a plan in this process: wanted hook.remove() or hook.deactivate()")


def _hooked() -> bool:
    hook = sys.modules.get("faults.hook")  # not imported here, because that would import torch
    return hook is not None and bool(hook.present())


def _other_worlds(running: RunningTest) -> list[Any]:
    """Return a `Kept` for each idle world that fixtures have launched without `idle_world`."""
    if "reference.world.world" not in sys.modules:
        return []
    from faults.testing.rref_leaks import others

    return others([idle.world for idle in running.idles])


def _is_interrupted(session: pytest.Session) -> bool:
    """Whether the run has ended within a test. Its teardown belongs to no test: a failure there would end pytest by a
    traceback, and what was held at that moment is no leak."""
    return session.exitstatus != pytest.ExitCode.OK


def _allowed(item: pytest.Item) -> set[str]:
    allowed = [kind for mark in item.iter_markers("leaves") for kind in mark.args]
    if unknown := [str(kind) for kind in allowed if kind not in KINDS]:
        pytest.fail(f"the mark leaves takes {', '.join(KINDS)}, got {', '.join(sorted(unknown))}", pytrace=False)
    return set(allowed)


def not_waited_for(item: pytest.Item) -> set[str]:
    """Return the kinds of leaks that a test may have, or of which nobody asks."""
    return set(KINDS) if leaks_of(item.config) == "off" or _is_interrupted(item.session) else _allowed(item)
