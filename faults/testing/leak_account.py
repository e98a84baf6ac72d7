"""Check what one test leaves behind, around the test and all of its own fixtures."""

from __future__ import annotations

import multiprocessing.util
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from faults.testing.leaks import KINDS, Accounting
from faults.testing.running_test import RunningTest
from faults.testing.settings import IDLE_WORLDS, PROCESS_MARK, RUNNING_TEST, TEMPORARY, leaks_of

FIXTURES = {"world", "idle_world", "fresh_world", "plan", "run_dir", "_faults_plan"}


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
        running.save()
    # If the run is interrupted, this teardown belongs to no test, and a failure would end pytest by a traceback.
    if left and request.session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        pytest.fail("left by this test:\n" + "\n".join(left), pytrace=False)


@contextmanager
def _held(request: pytest.FixtureRequest, left: list[str]) -> Iterator[None]:
    """Compare what exists before and after a test, and put what is new into ``left``."""
    running, stash = request.node.stash[RUNNING_TEST], request.config.stash
    allowed = _allowed(request.node)
    multiprocessing.util.get_temp_dir()  # made before `tempdir` changes, so that its sockets have short paths
    if TEMPORARY not in stash:
        stash[TEMPORARY] = str(folder_of(request, "temporary"))
    before, tempfile.tempdir = tempfile.tempdir, stash[TEMPORARY]
    try:
        accounting = Accounting(KINDS, stash[PROCESS_MARK])
        worlds = _other_worlds(running)
        yield
        besides = {*allowed, "descriptors"} if running.failed else allowed  # its traceback keeps its files open
        kept = [*running.kept, *(each for world in (*running.idles, *worlds) for each in world.left(besides) or ())]
        left += [line for kind, line in kept if kind not in besides] + accounting.left(besides)
    finally:
        tempfile.tempdir = before


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


def _allowed(item: pytest.Item) -> set[str]:
    allowed = {kind for mark in item.iter_markers("leaves") for kind in mark.args}
    if unknown := allowed - set(KINDS):
        pytest.fail(f"the mark leaves takes {', '.join(KINDS)}, got {', '.join(sorted(unknown))}", pytrace=False)
    return allowed


def folder_of(request: pytest.FixtureRequest, name: str) -> Path:
    """Make a new folder of this run of pytest, with this name."""
    factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    return factory.mktemp(name)
