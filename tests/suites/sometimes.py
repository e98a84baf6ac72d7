"""Tests of which one fails with every other seed, and one leaves a process. Run by test_soak.py."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

drawn = []
processes = []


@settings(max_examples=5, database=None)
@given(st.integers())
def draw(value):
    drawn.append(value)


def say(word):
    with Path("said").open("a") as file:
        file.write(f"{word}\n")


class TestOrder:
    def test_one(self):
        say("one")

    def test_two(self):
        say("two")

    def test_three(self):
        say("three")


def test_drawn():
    draw()
    say(f"drawn {drawn}")


@pytest.mark.skipif("ODD" not in os.environ, reason="not asked for")
def test_odd(faults_seed):
    assert faults_seed % 2 == 0


@pytest.mark.skipif("LEAVE" not in os.environ, reason="not asked for")
def test_leaves():
    processes.append(subprocess.Popen(["sleep", "61"], start_new_session=True))


@pytest.mark.xfail(reason="an expected failure counts as a test, and not as a failure")
def test_expected():
    raise AssertionError
