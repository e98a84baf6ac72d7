"""Tests that fail in every way, and some that do not. Run by test_pytest_plugin.py."""

import os
import signal

import pytest

from reference.outcome import Killed, Returned, RoleFailed
from tests.support import roles_plugin as plays
from tests.support.roles_plain import wait_for_ever

pytestmark = pytest.mark.world("a", "b")
FAULT = "Raise site=tests.support.roles_plugin:double role=a nth={} side=request error=ValueError text='no sale'"


@pytest.mark.plan(FAULT.format(1))
def test_wrong(plan, fresh_world, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # the folders of --faults-keep and --faults-report are the run's
    world = fresh_world(["a", "b"], deadline=30)
    assert world.call("a", plays.ask_and_say, "b") == 42


@pytest.mark.plan(FAULT.format(7))
def test_not_fired(plan, world):
    assert world.call("a", plays.ask, "b") == 42


@pytest.mark.plan("Drop message=RREF_USER_DELETE role=a times=1")
def test_too_late(plan, world):
    """This is too late for a message's fault."""


def test_overdue(fresh_world):
    world = fresh_world({"a": wait_for_ever, "b": plays.process_id}, deadline=1)
    assert isinstance(world.wait()["b"], Returned)


def test_call_overdue(world):
    world.call("a", wait_for_ever, deadline=0.5)


@pytest.mark.timeout(1)
def test_timeout(world):
    world.call("a", wait_for_ever)


def test_replaced(world):
    """The world is healthy, whatever earlier tests have done to it."""
    assert world.outcomes == {}
    assert world.call("b", plays.ask, "a") == 42


def test_dies(world):
    os.kill(world.pids["b"], signal.SIGKILL)
    with pytest.raises(RoleFailed) as caught:
        world.call("b", plays.process_id)
    assert caught.value.outcome == Killed(signal.SIGKILL)


@pytest.mark.plan(FAULT.format(1))
def test_fires(plan, world):
    with pytest.raises(RoleFailed) as caught:
        world.call("a", plays.ask, "b")
    assert caught.value.outcome.message.splitlines()[1] == "ValueError('no sale')"
    assert len(plan.timeline().of("fired")) == 1
