"""Tests that ask for things that do not exist. Run by test_pytest_plugin.py."""

import pytest


def test_no_roles(world):
    pass


@pytest.mark.world("a", "b")
def test_roles_of_one_test(world):
    pass


def test_no_plan(plan):
    pass


@pytest.mark.plan("Frob x=1")
def test_unknown_kind():
    pass


@pytest.mark.plan("Frob x=1")
def test_unknown_kind_beside_a_world(fresh_world):
    pass


@pytest.mark.plan("Frob x=1")
@pytest.mark.xfail
def test_unknown_kind_and_expected_to_fail():
    raise AssertionError


@pytest.mark.leaves("process")
def test_unknown_leak(run_dir):
    pass


@pytest.mark.parametrize("world", [["a", "a"], "ab", {"a": print}], indirect=True, ids=["twice", "text", "played"])
def test_roles_that_cannot_be(world):
    pass
