"""A test that shows Hypothesis's draws. Run by test_pytest_plugin.py."""

from hypothesis import given, settings
from hypothesis import strategies as st

drawn = []


@settings(max_examples=20, database=None, derandomize=False)  # as Hypothesis would where CI is set
@given(st.integers())
def collect(value):
    drawn.append(value)


def test_drawn():
    collect()
    print("drawn", drawn)
