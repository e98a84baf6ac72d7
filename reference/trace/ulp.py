"""The distance of two tensors in ULPs: the number of representable numbers between their elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _bits(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """View the elements' bits as unsigned integers."""
    width = tensor.element_size()
    signed = tensor.detach().cpu().contiguous().view(_INTEGERS[width])
    return signed.flatten().numpy().view(f"u{width}")  # flat, because numpy 1 has at most 32 dimensions


def _ordered(tensor: torch.Tensor, signed_zero: bool) -> np.ndarray[Any, Any]:
    """Map elements to unsigned integers in the same order as the numbers; -0.0 comes just below 0.0."""
    width, bits = tensor.element_size(), _bits(tensor)
    top = bits.dtype.type(1 << (8 * width - 1))
    if not tensor.dtype.is_floating_point:
        return bits ^ top if tensor.dtype.is_signed else bits
    below = ~bits if signed_zero else -bits  # `-bits` is `~bits` + 1, so -0.0 meets 0.0
    return np.where(bits & top, below, bits | top)


def ulps(a: torch.Tensor, b: torch.Tensor, signed_zero: bool = True) -> int:
    """The largest distance between two corresponding elements; 0 exactly if all bits are equal.

    Both tensors have one shape and one real dtype, and hold no NaN. The distance of integers is their difference.
    Without ``signed_zero``, -0.0 and 0.0 are one number; with it they are neighbours.
    """
    if np.array_equal(_bits(a), _bits(b)):  # the usual case, and much faster than measuring distances
        return 0
    left, right = _ordered(a, signed_zero), _ordered(b, signed_zero)
    return int((np.maximum(left, right) - np.minimum(left, right)).max())
