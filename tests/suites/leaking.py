"""Tests that leave something, each beside one that does not. Run by test_pytest_plugin.py."""

import multiprocessing.shared_memory
import os
import signal
import subprocess
from functools import partial

import pytest

import faults.testing.leak_account
import faults.testing.rref_leaks
from reference.outcome import Returned, RoleFailed
from reference.world import World, launch
from tests.support import roles_plugin as plays
from tests.support.roles_plain import wait_for_ever

faults.testing.leak_account.GRACE = faults.testing.rref_leaks.GRACE = 0.2
pytestmark = pytest.mark.world("a", "b")
kept = []


@pytest.fixture(scope="module", autouse=True)
def _cleared():
    """Remove this suite's own leaks before anything else ends."""
    yield
    while kept:
        kept.pop()()


def process():
    child = subprocess.Popen(["sleep", "60"])
    return lambda: (child.kill(), child.wait())


def orphan():
    pid = int(subprocess.run(["sh", "-c", "sleep 61 >&- 2>&- & echo $!"], stdout=subprocess.PIPE, check=True).stdout)
    return lambda: os.kill(pid, signal.SIGKILL)


def memory():
    planted = multiprocessing.shared_memory.SharedMemory(f"planted_{os.urandom(4).hex()}", create=True, size=8)
    return lambda: (planted.close(), planted.unlink())


def role(folder=None):
    return launch(["a"], folder=folder).close


def test_process():
    kept.append(process())


def test_orphan():
    kept.append(orphan())


def test_memory():
    kept.append(memory())


def test_role(tmp_path):
    kept.append(role(tmp_path))


@pytest.mark.parametrize("make", [process, orphan, memory, role])
def test_given_back(make):
    make()()


@pytest.mark.leaves("processes", "memory", "contexts")
def test_allowed(fresh_world):
    kept.extend([process(), memory()])
    fresh_world(["a", "b"]).call("a", plays.keep_a_context, "b")


def test_rref(world):
    world.call("a", plays.keep_an_rref, "b")


def test_context(world):
    """The world with the leak has been replaced, too."""
    assert world.call("a", plays.kept) == 0
    world.call("a", plays.keep_a_context, "b")


def test_an_rref_that_only_garbage_holds(world):
    world.call("a", plays.keep_an_rref_in_garbage, "b")


def test_an_rref_beside_a_future_that_failed(world):
    """The future keeps its exception, this its frames, and one of them the RRef and the future."""
    with pytest.raises(RoleFailed):
        world.call("a", plays.fail_beside_an_rref, "b")


def test_an_rref_beside_a_failure_that_was_caught(world):
    """A cycle that is never collected stays forever."""
    assert "too late" in world.call("a", plays.caught_beside_an_rref, "b")


@pytest.mark.plan("Delay site=tests.support.roles_plugin:double role=a nth=1 side=request seconds=0.01")
def test_an_rref_under_a_plan(world, plan):
    world.call("a", plays.keep_an_rref, "b")


@pytest.fixture(scope="module")
def own():
    with launch(["a", "b"], deadline=100) as launched:
        yield launched


def test_a_context_in_a_world_of_ones_own(own):
    own.call("a", plays.keep_a_context, "b")


def test_an_rref_besides(own):
    """Only new leaks count, because this world goes on."""
    own.call("a", plays.keep_an_rref, "b")


def test_nothing_in_a_world_of_ones_own(own):
    assert own.call("a", plays.ask, "b") == 42


def test_a_context_in_a_fresh_world(fresh_world):
    fresh_world(["a", "b"]).call("a", plays.keep_a_context, "b")


def test_a_context_in_roles_that_return(fresh_world):
    world = fresh_world({"a": partial(plays.keep_a_context, "b"), "b": plays.process_id})
    assert isinstance(world.wait()["a"], Returned)


def test_nothing_in_a_fresh_world(fresh_world):
    for then in (World.wait, World.close):
        world = fresh_world(["a", "b"])
        assert world.call("a", plays.ask, "b") == 42
        then(world)
    fresh_world({"a": wait_for_ever})  # it does not answer
