"""Tests with plans in every combination of marks and fixtures. test_pytest_plugin_plans.py has the outcomes.

A test that a fault should hit passes if it was hit, and the next one passes if nothing of that is left.
"""

import os
import threading
import unittest
from functools import partial

import pytest

from reference.outcome import Returned, RoleFailed
from reference.world import launch
from tests.support import roles_plugin as plays

pytestmark = pytest.mark.world("a", "b")
HURT = "Raise site=tests.support.roles_plugin:double role=a {} side=request error=ValueError text='no sale'"
FIRST, SECOND, ALL = (HURT.format(which) for which in ("nth=1", "nth=2", "every=true"))
MESSAGE = "Drop message=RREF_USER_DELETE role=a times=1"
plan = pytest.mark.plan


@pytest.fixture(scope="module", autouse=True)
def _around():
    """The environment is as it was when the last test has ended."""
    before = {**os.environ, "PYTEST_CURRENT_TEST": ""}
    yield
    assert {**os.environ, "PYTEST_CURRENT_TEST": ""} == before


def refused(world):
    with pytest.raises(RoleFailed, match="no sale"):
        world.call("a", plays.ask, "b")


def served(world):
    assert world.call("a", plays.ask, "b") == 42


# Put to work.


@plan(FIRST)
def test_hurt_in_the_idle_world(world):
    refused(world)


@plan(FIRST, expect_error="KeyError, ValueError")
def test_hurt_as_expected(world):
    world.call("a", plays.ask, "b")


@plan(FIRST, expect_error="OSError")
def test_hurt_as_expected_by_a_link(world):
    refused(world)
    raise RuntimeError("lost") from OSError("gone")


@plan(FIRST, expect_error="KeyError")
def test_hurt_unexpectedly(world):
    world.call("a", plays.ask, "b")


@plan(FIRST, expect_error="RuntimeError")
def test_hurt_unexpectedly_in_the_role(world):
    """The error that tells of it in this process is a RuntimeError."""
    world.call("a", plays.ask, "b")


@plan("Duplicate site=tests.support.roles_plugin:double_slowly role=a")
def test_hurt_by_a_second_call_that_ends_after_the_test(world):
    assert world.call("a", plays.ask_slowly, "b") == 42


@plan(SECOND, expect_error="ValueError")
def test_not_fired_though_an_error_is_expected(world):
    served(world)
    raise ValueError


@plan(FIRST)
def test_hurt_in_a_fresh_world(fresh_world):
    refused(fresh_world(["a", "b"]))


@plan(FIRST)
def test_hurt_in_roles_that_return(fresh_world):
    roles = {"a": partial(plays.ask, "b"), "b": plays.process_id}
    assert not isinstance(fresh_world(roles).wait()["a"], Returned)


@plan(FIRST)
def test_hurt_in_a_launch_of_its_own(plan):
    with launch(["a", "b"], **plan.arguments(["a", "b"])) as world:
        refused(world)


@plan(FIRST, activate=False)
def test_hurt_when_it_says_so(plan, world):
    served(world)
    plan.activate(world)
    refused(world)


@pytest.fixture
def opened(world):
    served(world)
    yield
    served(world)


@plan(ALL)
def test_hurt_between_set_up_and_teardown(opened, world):
    refused(world)


@plan(FIRST)
class TestClass:
    @plan(SECOND)
    def test_hurt_by_its_class_and_itself(self, world):
        refused(world)
        refused(world)


class TestCase(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def _given(self, world):
        self.world = world

    @plan(FIRST)
    def test_hurt_in_unittest(self):
        refused(self.world)

    @plan(SECOND)
    def test_not_fired_in_unittest(self):
        served(self.world)


@pytest.mark.parametrize("hurt", [False, pytest.param(True, marks=plan(FIRST))])
def test_parameter(world, hurt):
    (refused if hurt else served)(world)


@plan(FIRST)
@pytest.mark.xfail(strict=True)
def test_expected_to_fail_under_it(world):
    served(world)


@plan(SECOND)
@pytest.mark.xfail(strict=True)
def test_not_fired_and_expected_to_fail_in_vain(world):
    served(world)


@plan(SECOND)
@pytest.mark.xfail
def test_not_fired_and_expected_to_fail(world):
    raise AssertionError("before it could")


@plan(MESSAGE, unseen=True)
def test_hurt_though_unseen(fresh_world):
    served(fresh_world(["a", "b"]))


@plan(MESSAGE.replace("RREF_USER_DELETE", "PYTHON_REMOTE_CALL"), unseen=True)
def test_not_fired_though_unseen(fresh_world):
    served(fresh_world(["a", "b"]))


# Put to work nowhere.


@plan(FIRST)
def test_unused_without_a_fixture():
    pass


@plan(FIRST)
def test_unused_arguments(plan):
    plan.arguments(["a", "b"])


@plan(MESSAGE, unseen=True)
def test_unused_though_unseen(fresh_world):
    served(fresh_world(["a", "b"], healthy=True))


@plan(FIRST, activate=False)
def test_unused_when_nobody_says_so(world):
    served(world)


@plan(FIRST)
@pytest.mark.xfail
def test_unused_and_expected_to_fail():
    raise AssertionError


@plan(FIRST)
def test_unused_and_said_to_fail():
    pytest.xfail("whatever")


def test_late_mark(request, world):
    request.applymarker(plan(FIRST))
    served(world)


@plan(FIRST)
def test_late_second_mark(request, world):
    request.applymarker(plan(SECOND))
    refused(world)


@plan(MESSAGE.replace("role=a", "role=c"), unseen=True)
def test_stranger_in_a_fresh_world(fresh_world):
    served(fresh_world(["a", "b"]))


@plan(FIRST.replace("role=a", "role=c"))
def test_stranger_in_the_idle_world(world):
    served(world)


# Plans that are undone, however the test ends: the next test finds the same world healthy.


@pytest.fixture
def broken(plan):
    raise OSError("broken")


@plan(ALL)
def test_broken_in_its_set_up(plan, world, broken):
    """The plan is active when this fixture runs."""


def test_healthy_after_a_broken_set_up(world):
    served(world)


@plan(ALL)
def test_failed(world):
    served(world)


def test_healthy_after_a_failure(world):
    served(world)


@plan(ALL)
@pytest.mark.timeout(1, func_only=True)
def test_overdue(world):
    refused(world)
    threading.Event().wait()


def test_healthy_after_a_limit(world):
    served(world)


@plan(ALL)
def test_skipped(world):
    refused(world)
    pytest.skip("for no reason")


def test_healthy_after_a_skip(world):
    served(world)


class TestOption:
    """These tests run under --faults-plan alone."""

    @pytest.fixture
    def answer(self, request):
        return refused if request.config.option.faults_plan else served

    def test_option_idle(self, world, answer):
        answer(world)

    def test_option_fresh(self, fresh_world, answer):
        answer(fresh_world(["a", "b"]))
        served(fresh_world(["a", "b"]))

    def test_option_idle_before_fresh(self, world, fresh_world, answer):
        served(fresh_world(["a", "b"]))
        answer(world)

    def test_option_without_occasion(self, world):
        pass

    def test_option_without_a_world(self):
        pass
