"""Worlds of the plugin's fixtures, where the ini file says `faults_isolated`. Run by test_isolated_network.py."""

import pytest

pytestmark = pytest.mark.world("a", "b")


def test_of_a_module(world):
    assert world.isolated


def test_of_a_test(fresh_world):
    with fresh_world(["a"]) as made:
        assert made.isolated


def test_one_that_says_otherwise(fresh_world):
    with fresh_world(["a"], isolated=False) as made:
        assert not made.isolated


@pytest.mark.parametrize("world", [["a", "c"]], indirect=True)
def test_of_a_parameter(world):
    assert world.isolated
