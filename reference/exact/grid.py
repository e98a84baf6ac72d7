"""Numbers as whole multiples of a power of two: how many bits a sum of them needs in any order."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

# A factor that is a power of two, such as lr, may be multiplied earlier or later. Between these exponents the product
# of two numbers neither overflows nor loses bits.
SMALLEST, LARGEST = -511, 511

_ROUNDING = 1 + 2.0**-20  # more than the relative error of a float64 sum of fewer than 2**32 sizes


@dataclass(frozen=True)
class Grid:
    """Numbers that are whole multiples of 2**unit. The sizes of each number's terms add up to at most ``most``."""

    unit: int
    most: float

    def __post_init__(self) -> None:
        if math.isnan(self.most):  # 0 times infinity: nothing is known about the sum
            object.__setattr__(self, "most", math.inf)

    def __add__(self, other: Grid) -> Grid:
        return Grid(min(self.unit, other.unit), self.most + other.most)

    def __mul__(self, other: Grid) -> Grid:
        product = Grid(self.unit + other.unit, self.most * other.most)
        return product if (self.most and other.most) or math.isinf(product.most) else ZERO

    def times(self, count: float) -> Grid:
        """The grid of sums of at most ``count`` of these numbers."""
        return Grid(self.unit, self.most * count)

    @property
    def bits(self) -> int:
        """The bits that a significand needs to hold every partial sum; infinitely many if a sum is not finite."""
        if self.most == 0:
            return 0
        most = self.most * _ROUNDING
        return math.frexp(most)[1] - self.unit if math.isfinite(most) else sys.maxsize

    def misfit(self, allowed: int) -> str:
        """Say why a partial sum can be inexact in numbers with ``allowed`` bits; empty if none can."""
        if not math.isfinite(self.most):
            return "is not finite"
        if self.bits > allowed:
            return f"needs {self.bits} bits, and {allowed} are exact"
        if self.unit < SMALLEST:
            return f"has digits below 2**{SMALLEST}"
        return f"has numbers above 2**{LARGEST}" if self.most > 2.0**LARGEST else ""


ZERO = Grid(1024, 0.0)


def sizes(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Absolute values as float64."""
    found: np.ndarray[Any, Any] = np.abs(tensor.detach().cpu().double().numpy())
    return found


def grid_of_values(values: np.ndarray[Any, Any]) -> Grid:
    """Make the grid of these numbers: their largest common unit, and their largest size."""
    found = values[values != 0]
    if not found.size:
        return ZERO
    if not np.isfinite(found).all():
        return Grid(0, math.inf)
    fractions, exponents = np.frexp(found)
    significands = (fractions * 2.0**53).astype(np.int64)
    zeros = np.frexp((significands & -significands).astype(np.float64))[1] - 1  # trailing zeros of each significand
    return Grid(int((exponents - 53 + zeros).min()), float(np.abs(found).max()))


def either(one: Grid, other: Grid) -> Grid:
    """The grid that holds the numbers of both."""
    return Grid(min(one.unit, other.unit), max(one.most, other.most))
