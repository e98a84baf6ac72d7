"""One tensor of a trace: of which shapes it may be, at the limits and beyond them."""

from __future__ import annotations

import pytest
import torch

from reference.trace.trace import DIMENSIONS, ELEMENTS, unreadable


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ((1,) * DIMENSIONS, None),
        ((1,) * (DIMENSIONS + 1), "33 dimensions, wanted at most 32"),
        ((0, ELEMENTS), None),
        ((0, ELEMENTS + 1), f"too large a shape, (0, {ELEMENTS + 1})"),
    ],
    ids=["dimensions", "one dimension more", "elements", "one element more"],
)
def test_a_shape_is_refused_beyond_its_limit_and_not_at_it(shape: tuple[int, ...], why: str | None) -> None:
    assert unreadable(torch.empty(shape)) == why
