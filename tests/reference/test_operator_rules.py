"""The size of a sum, and what no significand holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from reference.exact.exactness import ExactnessProof, NotExact
from reference.exact.operator_rules import LARGEST, SMALLEST, ZERO, Grid


def test_a_product_with_zero_is_zero() -> None:
    assert Grid(-3, 8.0) * ZERO == ZERO == ZERO * Grid(-3, 8.0)
    assert ZERO.misfit(53) == ""


def test_two_numbers_of_allowed_sizes_have_a_product_of_53_bits() -> None:
    """Therefore factors may be multiplied in any order: none overflows, and no product loses bits."""
    odd = 2.0**52 + 1
    least, most = math.ldexp(1.0, SMALLEST), math.ldexp(odd, LARGEST - 53)
    assert Grid(SMALLEST, least * odd).misfit(53) == ""
    assert least * odd * least == math.ldexp(odd, 2 * SMALLEST) != 0
    assert math.ldexp(least * odd * least, -2 * SMALLEST) == odd
    assert Grid(LARGEST - 53, most).misfit(53) == ""
    assert math.isfinite(most * most)
    assert Grid(LARGEST, 2.0 ** (LARGEST + 1)).misfit(53) == "has numbers above 2**511"
    assert Grid(SMALLEST - 1, least).misfit(53) == "has digits below 2**-511"


@pytest.mark.parametrize("number", [math.inf, math.nan])
@pytest.mark.parametrize("other", [0.0, 1.0])
@pytest.mark.parametrize(
    "function",
    [torch.add, torch.mul, torch.dot, lambda a, b: (a * b).sum(), lambda a, b: a.view(1, 1) @ b.view(1, 1)],
    ids=["add", "mul", "dot", "sum", "mm"],
)
def test_what_is_not_finite_is_refused_by_name(function: Callable[..., Any], number: float, other: float) -> None:
    one, two = (torch.tensor([each], dtype=torch.float64) for each in (number, other))
    with ExactnessProof(), pytest.raises(NotExact, match=r"^step 0: \w+ of \(1.* is not finite; wanted smaller"):
        function(one, two)


@pytest.mark.parametrize("function", [torch.mul, torch.dot, torch.square])
def test_a_product_that_overflows_is_refused(function: Callable[..., Any]) -> None:
    """Its one digit would fit: the number does not."""
    large = torch.tensor([2.0**600], dtype=torch.float64)
    with ExactnessProof(), pytest.raises(NotExact, match=r"^step 0: \w+ of \(1,\).* is not finite; "):
        function(*[large] * (1 if function is torch.square else 2))
