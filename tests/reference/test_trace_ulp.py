"""Distances in ULPs, compared with the integers that the bits stand for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.trace.trace import ulps

FLOATS = {torch.float16: 16, torch.bfloat16: 16, torch.float32: 32, torch.float64: 64}
SIGNED = {torch.int8: 8, torch.int16: 16, torch.int32: 32, torch.int64: 64}
INTEGERS = {width: dtype for dtype, width in SIGNED.items()}


def tensor_of(bits: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """The tensor whose elements have these bits, given as signed integers of the same width."""
    return torch.tensor(bits, dtype=INTEGERS[8 * dtype.itemsize]).view(dtype)


def bits_of(dtype: torch.dtype) -> st.SearchStrategy[int]:
    """The bits of any number but NaN, as a signed integer."""
    top = 1 << (8 * dtype.itemsize - 1)
    bits = st.integers(-top, top - 1)
    return bits.filter(lambda b: not tensor_of([b], dtype).isnan().any()) if dtype.is_floating_point else bits


def place(bits: int, dtype: torch.dtype, signed_zero: bool = True) -> int:
    """A number's place on the line: for floats, magnitude bits to either side of the two zeros, or of the one."""
    top = 1 << (8 * dtype.itemsize - 1)
    if not dtype.is_floating_point:
        return bits
    return bits if bits >= 0 else -(bits + top) - signed_zero


@pytest.mark.parametrize("dtype", [*FLOATS, *SIGNED], ids=str)
@settings(max_examples=60)
@given(data=st.data())
def test_distance_is_that_of_the_places(dtype: torch.dtype, data: st.DataObject) -> None:
    """In any shape and layout it is symmetric, and the largest over all elements. Without signed zeros the two are one
    place."""
    shape = tuple(data.draw(st.lists(st.integers(1, 4), max_size=3), "shape"))
    size = math.prod(shape)
    pairs = st.lists(st.tuples(bits_of(dtype), bits_of(dtype)), min_size=size, max_size=size)
    left, right = zip(*data.draw(pairs), strict=True)
    if data.draw(st.booleans(), "close to zero"):
        top = 1 << (8 * dtype.itemsize - 1)
        left, right = (tuple(bits % 4 - top * (bits % 8 // 4) for bits in side) for side in (left, right))
    order = data.draw(st.permutations(range(len(shape))), "order of the dimensions")
    a, b = (tensor_of(side, dtype).reshape(shape).permute(order) for side in (left, right))
    spread = torch.stack([b] * data.draw(st.sampled_from((1, 2)), "every which element of the storage"), -1)[..., 0]
    for signed in (True, False):
        places = ((place(x, dtype, signed), place(y, dtype, signed)) for x, y in zip(left, right, strict=True))
        wanted = max(abs(x - y) for x, y in places)
        assert ulps(a, spread, signed) == ulps(spread, a, signed) == wanted


@pytest.mark.parametrize(
    ("dtype", "a", "b", "wanted"),
    [
        (torch.float32, -0.0, 0.0, 1),
        (torch.float32, 0.0, 2.0**-149, 1),
        (torch.float32, -(2.0**-149), 2.0**-149, 3),
        (torch.float32, 1.0, 1.0 - 2.0**-24, 1),
        (torch.float32, 1.0, 2.0, 2**23),
        (torch.float16, 1.0, 2.0, 2**10),
        (torch.bfloat16, 1.0, 2.0, 2**7),
        (torch.float16, 65504.0, float("inf"), 1),
        (torch.float64, -float("inf"), float("inf"), 2 * 0x7FF0000000000000 + 1),
        (torch.int64, -(2**63), 2**63 - 1, 2**64 - 1),
        (torch.uint8, 0, 255, 255),
        (torch.uint8, 127, 128, 1),
        (torch.bool, False, True, 1),
        (torch.float32, [], [], 0),
        (torch.float32, [[], []], [[], []], 0),
    ],
)
def test_distances_are_those_computed_by_hand(dtype: torch.dtype, a: Any, b: Any, wanted: int) -> None:
    left, right = torch.tensor(a, dtype=dtype), torch.tensor(b, dtype=dtype)
    assert ulps(left, right) == wanted
    assert ulps(right, left) == wanted


def test_tensors_that_require_gradients_are_measured() -> None:
    a = torch.ones(2, requires_grad=True)
    assert ulps(a, torch.tensor([1.0, 1.0 + 2.0**-22])) == 2
