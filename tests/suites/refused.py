"""Tests with marks that are no plan, or have no effect. Run by test_pytest_plugin_plans.py."""

import unittest

import pytest

pytestmark = pytest.mark.world("a", "b")
plan = pytest.mark.plan
FAULT = "Raise site=tests.support.roles_plugin:double role=a side=request"


@plan("nonsense")
def test_no_fixture():
    pass


@plan("nonsense")
def test_a_world(world):
    pass


@plan("nonsense")
def test_a_fresh_world(fresh_world):
    pass


@plan("nonsense")
def test_a_plan(plan):
    pass


@plan("nonsense")
@pytest.mark.xfail
def test_expected_to_fail():
    raise AssertionError


@plan("nonsense")
class TestOf:
    def test_of_a_class(self):
        pass


@pytest.mark.parametrize("number", [pytest.param(1, marks=plan("nonsense"))])
def test_of_a_parameter(number):
    pass


class TestIn(unittest.TestCase):
    @plan("nonsense")
    def test_in_unittest(self):
        pass


@plan(FAULT, "nonsense")
def test_second_argument():
    pass


@plan("nonsense")
@plan(FAULT)
def test_second_mark():
    pass


@plan("")
def test_empty(fresh_world, plan):
    pass


@plan("seed=3")
def test_only_a_seed(plan):
    pass


@plan(FAULT)
@plan("{}")
def test_empty_beside_another():
    pass


@plan
def test_no_text():
    pass


@plan(7)
def test_a_number():
    pass


@plan(f"seed=3; {FAULT}")
@plan(f"seed=0; {FAULT}")
def test_two_seeds():
    pass


@plan(FAULT, unseen=True)
@plan(FAULT)
def test_unseen_and_not():
    pass


@plan(FAULT, unseen="yes")
def test_no_truth():
    pass
