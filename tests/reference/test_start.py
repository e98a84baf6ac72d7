"""The modules that the forkserver has loaded before it forks the first role; and a world that cannot start."""

from __future__ import annotations

import multiprocessing
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reference.world import WorldError, launch
from reference.world.role import RoleConfig
from reference.world.start import start
from tests.support.processes import left_after
from tests.support.roles_plain import kill_oneself

ROOT = Path(__file__).parents[2]
PATHS = {**os.environ, "PYTHONPATH": str(ROOT)}
PROGRAM = """
import sys
from reference.world import launch
import {tutorial}
LOADED = "sorted(__import__('sys').modules.keys() & {names}), __import__('gc').get_freeze_count() > 10**5"
with launch(["a"]) as world:
    print(world.call("a", eval, LOADED))
"""
NAMES = {"reference.rnn", "reference.pipeline", "reference.world.role", "torch._dynamo", "torchvision", "faults.hook"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("tutorial", "wanted"),
    [
        ("reference.rnn", ["reference.rnn", "reference.world.role", "torch._dynamo"]),
        ("faults.run.runs", ["faults.hook", "reference.world.role"]),
    ],
)
def test_roles_start_with_the_tutorials_of_their_launcher(tutorial: str, wanted: list[str]) -> None:
    """No other module that takes seconds to import is loaded."""
    program = PROGRAM.format(tutorial=tutorial, names=NAMES)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout == f"{(wanted, True)}\n", done.stderr


@pytest.mark.usefixtures("forkserver")
@pytest.mark.parametrize("room", [0, 2])
def test_a_world_is_refused_if_its_launcher_can_open_no_more_files(room: int, tmp_path: Path) -> None:
    """There is no room for the pipe to a role, or none for its process."""
    config = RoleConfig("a", 0, 1, tmp_path, os.getpid(), None, (), {}, False, 1, False, ())
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    unused = [number for number in range(1024) if not os.path.lexists(f"/proc/self/fd/{number}")]
    resource.setrlimit(resource.RLIMIT_NOFILE, (unused[room], before[1]))
    try:
        with pytest.raises(WorldError) as caught:
            start(config)
        assert [number for number in unused[:2] if os.path.lexists(f"/proc/self/fd/{number}")] == []
        assert str(caught.value) == "a cannot be started: Too many open files"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_multiprocessing_does_not_read_the_status_of_a_role() -> None:
    """It does so whenever it is asked for its children; of two threads that read a status, one finds none."""
    with launch(["only_of_its_world"]):
        assert "only_of_its_world" not in {child.name for child in multiprocessing.active_children()}


MANY = """
import resource
from reference.world import launch
from tests.support.roles_plain import nothing
resource.setrlimit(resource.RLIMIT_NOFILE, (200, {hard}))
if __name__ == "__main__":
    with launch(dict.fromkeys(["r" + str(number) for number in range(40)], nothing), deadline=30) as world:
        print(*{{type(each).__name__ for each in world.wait().values()}})
"""


def started(hard: int, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a world of 40 roles, of which the first opens 381 files, with a limit of 200 that roles may raise to
    ``hard``."""
    script = folder / "many.py"
    script.write_text(MANY.format(hard=hard))
    return subprocess.run([sys.executable, script], env=PATHS, capture_output=True, text=True, timeout=120)


def test_roles_open_as_many_files_as_the_system_allows(tmp_path: Path) -> None:
    """Otherwise torch's agent ends the first one by SIGABRT."""
    done = started(400, tmp_path)
    assert done.stdout == "Returned\n", done.stderr


def test_a_world_is_refused_if_its_first_role_could_not_open_enough_files(tmp_path: Path) -> None:
    said = started(399, tmp_path).stderr.splitlines()[-1]
    assert said.endswith("WorldError: 40 roles take 400 open files in one process, got 399 (ulimit -H -n)")


FORKING = """
import os, sys
from reference.world import launch
from tests.support.roles_plain import name
if __name__ == "__main__":
    with launch(["a"], deadline=60) as world:
        if not (child := os.fork()):
            with launch({"a": name}, deadline=60) as own:
                print("child", own.wait()["a"].value, flush=True)
            sys.exit()
        os.waitpid(child, 0)
        print("parent", world.call("a", name))
"""


def test_a_forked_child_of_a_process_that_has_launched_can_launch(tmp_path: Path) -> None:
    """It leaves its parent's world alone. It cannot have its parent's forkserver, whose end only the parent can see."""
    script = tmp_path / "forking.py"
    script.write_text(FORKING)
    done = subprocess.run([sys.executable, script], env=PATHS, capture_output=True, text=True, timeout=60)
    assert done.stdout == "child a\nparent a\n", done.stderr


INTERRUPTED = """
import os, threading
from multiprocessing.context import ForkServerProcess
from reference.world import launch
from tests.support.roles_plain import name
kill = os.kill
def interrupted(process):
    del ForkServerProcess.start
    raise KeyboardInterrupt
def late(pid, number):
    os.kill = kill
    threading.Timer(0.5, kill, (pid, number)).start()
if __name__ == "__main__":
    ForkServerProcess.start, os.kill = interrupted, late
    try:
        launch(["a"])
    except KeyboardInterrupt:
        pass
    with launch(["a"], deadline=60) as world:
        print(world.call("a", name))
"""


def test_after_an_interrupted_start_a_world_starts_although_the_first_server_takes_its_time_to_end(
    tmp_path: Path,
) -> None:
    script = tmp_path / "interrupted.py"
    script.write_text(INTERRUPTED)
    done = subprocess.run([sys.executable, script], env=PATHS, capture_output=True, text=True, timeout=60)
    assert done.stdout == "a\n", done.stderr


@contextmanager
def without_threads() -> Iterator[None]:
    """Within it no thread can be started, and a world says so."""
    before = threading.stack_size(1 << 45)  # more than there is
    try:
        with pytest.raises(WorldError, match=r"^the roles cannot be watched: can't start new thread$"):
            yield
    finally:
        threading.stack_size(before)


def test_a_world_is_refused_if_its_launcher_can_start_no_thread() -> None:
    with without_threads():
        launch(["a"])


def test_nothing_is_left_of_a_life_that_its_launcher_cannot_watch() -> None:
    with launch(dict.fromkeys("ab", kill_oneself), restarts=1) as world:
        first = set(world.pids.values())
        with without_threads():
            world.wait()
        second = set(world.pids.values())
        assert not first & second
        assert left_after(second, 0) == set()
