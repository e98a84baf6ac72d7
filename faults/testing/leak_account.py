"""Hold one test to what it leaves behind, around the test and all of its own fixtures."""

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
    """Fail the test by what it has left, once its fixtures are torn down."""
    mode, names = leaks_of(request.config), set(request.fixturenames)
    scene = request.node.stash[RUNNING_TEST]
    scene.idles = [*request.config.stash[IDLE_WORLDS]] if {"world", "idle_world"} & names else []
    for idle in scene.idles:
        idle.begin()
    held = mode != "off" and (mode == "all" or bool(FIXTURES & names))
    left: list[str] = []
    try:
        with _unhooked(left) if mode != "off" else nullcontext(), _held(request, left) if held else nullcontext():
            yield
    finally:
        scene.save()
    # Of a run that is interrupted the teardown is nobody's: a failure would end pytest itself by a traceback.
    if left and request.session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        pytest.fail("left by this test:\n" + "\n".join(left), pytrace=False)


@contextmanager
def _held(request: pytest.FixtureRequest, left: list[str]) -> Iterator[None]:
    """To what a test leaves: put into ``left``."""
    scene, stash = request.node.stash[RUNNING_TEST], request.config.stash
    allowed = _allowed(request.node)
    multiprocessing.util.get_temp_dir()  # its sockets stay where paths are short
    if TEMPORARY not in stash:
        stash[TEMPORARY] = str(folder_of(request, "temporary"))
    before, tempfile.tempdir = tempfile.tempdir, stash[TEMPORARY]
    try:
        accounting = Accounting(KINDS, stash[PROCESS_MARK])
        worlds = _other_worlds(scene)
        yield
        besides = {*allowed, "descriptors"} if scene.failed else allowed  # its traceback holds on to what it had open
        kept = [*scene.kept, *(each for world in (*scene.idles, *worlds) for each in world.left() or ())]
        left += [line for kind, line in kept if kind not in besides] + accounting.left(besides)
    finally:
        tempfile.tempdir = before


@contextmanager
def _unhooked(left: list[str]) -> Iterator[None]:
    """A plan that a test puts into its own process hurts no other test: it is removed, and put into ``left``."""
    before = _hooked()
    yield
    if not before and _hooked():
        sys.modules["faults.hook"].remove()
        left.append("a plan in this process: wanted hook.remove() or hook.deactivate()")


def _hooked() -> bool:
    hook = sys.modules.get("faults.hook")  # torch is imported for it, so not here
    return hook is not None and bool(hook.present())


def _other_worlds(scene: RunningTest) -> list[Any]:
    """Of `Kept`: idle worlds that fixtures have launched without `idle_world`."""
    if "reference.world.world" not in sys.modules:
        return []
    from faults.testing.rref_leaks import others

    return others([idle.world for idle in scene.idles])


def _allowed(item: pytest.Item) -> set[str]:
    allowed = {kind for mark in item.iter_markers("leaves") for kind in mark.args}
    if unknown := allowed - set(KINDS):
        pytest.fail(f"a test leaves some of {', '.join(KINDS)}, got {', '.join(sorted(unknown))}", pytrace=False)
    return allowed


def folder_of(request: pytest.FixtureRequest, name: str) -> Path:
    """A new folder of this run of pytest, with this name."""
    factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    return factory.mktemp(name)
