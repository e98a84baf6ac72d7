"""Each property asserts how many examples ran, and fails as its examples do."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from tests.properties import properties


def test_a_property_that_ran_too_few_examples_fails() -> None:
    """Three numbers are not sixteen examples, nor a quarter of them."""

    @properties.examples(16, number=st.integers(0, 2))
    def too_few(number: int) -> None:
        assert number < 3

    with pytest.raises(AssertionError, match=r"^3 examples ran, wanted (4|16|1600)$"):
        too_few()


def test_a_property_that_fails_fails() -> None:
    @properties.examples(16, number=st.integers(0, 2))
    def fails(number: int) -> None:
        assert number < 2

    with pytest.raises(AssertionError):
        fails()
