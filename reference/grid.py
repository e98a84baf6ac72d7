"""Numbers as whole multiples of a power of two: how many bits a sum of them needs in whatever order it is added."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

_ROUNDING = 1 + 2.0**-20  # more than the relative error of a float64 sum of fewer than 2**32 sizes


@dataclass(frozen=True)
class Grid:
    """Whole multiples of 2**unit; the sizes of the terms of each add up to at most ``most``."""

    unit: int
    most: float

    def __add__(self, other: Grid) -> Grid:
        return Grid(min(self.unit, other.unit), self.most + other.most)

    def __mul__(self, other: Grid) -> Grid:
        return Grid(self.unit + other.unit, self.most * other.most) if self.most and other.most else ZERO

    def times(self, count: float) -> Grid:
        """Sums of at most ``count`` of these."""
        return Grid(self.unit, self.most * count)

    @property
    def bits(self) -> int:
        """How many a significand needs to hold every partial sum."""
        if self.most == 0:
            return 0
        top = math.frexp(self.most * _ROUNDING)[1] if math.isfinite(self.most * _ROUNDING) else 1025
        return top - self.unit


ZERO = Grid(1024, 0.0)


def sizes(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Absolute values as float64."""
    found: np.ndarray[Any, Any] = np.abs(tensor.detach().cpu().double().numpy())
    return found


def grid_of_values(values: np.ndarray[Any, Any]) -> Grid:
    """The largest unit of these numbers, and the largest size."""
    found = values[values != 0]
    if not found.size:
        return ZERO
    if not np.isfinite(found).all():
        return Grid(0, math.inf)
    fractions, exponents = np.frexp(found)
    significands = (fractions * 2.0**53).astype(np.int64)
    zeros = np.frexp((significands & -significands).astype(np.float64))[1] - 1  # at the end of each significand
    return Grid(int((exponents - 53 + zeros).min()), float(np.abs(found).max()))


def either(one: Grid, other: Grid) -> Grid:
    """What holds for the numbers of both."""
    return Grid(min(one.unit, other.unit), max(one.most, other.most))
