"""Names of tensors: what is one, at the limits and beyond them, and which is a loss's."""

from __future__ import annotations

import pytest

from reference.trace.names import LONGEST, misnamed, step_of


@pytest.mark.parametrize(("length", "refused"), [(LONGEST, False), (LONGEST + 1, True)])
def test_a_name_is_refused_beyond_its_longest_length_and_not_at_it(length: int, refused: bool) -> None:
    assert bool(misnamed("x" * length)) is refused


@pytest.mark.parametrize(("digits", "refused"), [(3, True), (4, False), (18, False), (19, True)])
def test_the_number_of_a_losss_step_has_4_to_18_digits(digits: int, refused: bool) -> None:
    name = f"{'7' * digits}/loss/trainer1"
    assert bool(misnamed(name)) is refused
    assert step_of(name) == (None if refused else int("7" * digits))
