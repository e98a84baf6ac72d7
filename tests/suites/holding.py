"""Tests that leave RRefs and contexts in roles that trace them. Run by test_pytest_plugin.py."""

from functools import partial

import pytest

import faults.testing.leak_account
import faults.testing.rref_leaks
from reference.outcome import Returned
from tests.support import roles_plugin as plays

faults.testing.leak_account.GRACE = faults.testing.rref_leaks.GRACE = 0.2
pytestmark = pytest.mark.world("a", "b")


def test_rref(world):
    world.call("a", plays.keep_an_rref, "b")


def test_context(world):
    world.call("a", plays.keep_a_context, "b")


def test_rrefs_of_a_world_that_ends(fresh_world):
    roles = {"a": partial(plays.keep_two_rrefs, "b"), "b": plays.process_id}
    assert isinstance(fresh_world(roles).wait()["a"], Returned)


@pytest.fixture(scope="module")
def idle(idle_world):
    """A world that keeps an RRef before any test begins."""
    launched = idle_world(["a", "b"])
    launched.call("a", plays.keep_an_rref, "b")
    yield launched
    launched.close()


def test_another_rref_besides(idle):
    """Only the new one is named."""
    idle.call("a", plays.keep_a_pair, "b")


def test_nothing(world, fresh_world):
    assert world.call("a", plays.ask, "b") == 42
    roles = {"a": partial(plays.ask, "b"), "b": plays.process_id}
    assert fresh_world(roles).wait()["a"] == Returned(42)
