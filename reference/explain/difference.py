"""Compare two traces: how close they are, and in which parts they differ."""

from __future__ import annotations

import math

import torch

# How many roundings of its largest element two computations of one tensor may differ by. A sum of n terms in another
# order differs by about the square root of n; the largest sums here have a few thousand terms.
ROUNDINGS = 64.0
# In dtypes of 16 bits, whose sums are added in float32.
SHORT_ROUNDINGS = 8.0

# A larger distance in ULPs tells nothing: across zero, or from it, it counts all the tiny numbers between.
TELLING_ULPS = 10**6
SHORT_TELLING_ULPS = 64


def rounding_of(*tensors: torch.Tensor) -> float:
    """What rounding may change in these tensors, as a part of their largest element; 0 for integers."""
    floats = [each for each in tensors if each.is_floating_point()]
    counts = [SHORT_ROUNDINGS if each.element_size() == 2 else ROUNDINGS for each in floats]
    return max((n * torch.finfo(each.dtype).eps for n, each in zip(counts, floats, strict=True)), default=0.0)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether all numbers are equal; -0.0 equals 0.0, and NaN is NaN."""
    return a.shape == b.shape and a.dtype == b.dtype and bool(_equal(a, b).all())


def _equal(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a == b) | (a.isnan() & b.isnan())


def close(a: torch.Tensor, b: torch.Tensor, rounding: float | None = None, noise: float = 0.0) -> bool:
    """Whether the tensors differ by rounding at most: by a part of the larger of their largest elements.

    ``rounding``: the part, by default `rounding_of` both. ``noise``: what rounding may change in an element, if that is
    more, as in a sum whose terms cancel.
    """
    if a.shape != b.shape:
        return False
    left, right = a.double(), b.double()
    if not (left.isfinite().all() and right.isfinite().all()):
        return False
    scale = max(float(left.abs().max()), float(right.abs().max()))
    allowed = max(noise, (rounding_of(a, b) if rounding is None else rounding) * scale)
    return float((left - right).abs().max()) <= allowed


def difference_of(name: str, yours: torch.Tensor, reference: torch.Tensor, ulps: int, *, exact: bool = True) -> str:
    """Say how two tensors of one shape that are not equal differ: in which share of their elements, where first, and by
    how much at most if that is finite. ``ulps``: their distance, 0 for none.

    Without ``exact``, numbers that differ by rounding do not count, if others differ by more.
    """
    left, right = yours.double().flatten(), reference.double().flatten()
    differing, beyond = ~_equal(left, right), ""
    away = (left - right).abs()
    more = differing & ~(away <= rounding_of(yours, reference) * float(right.abs().max()))
    if not exact and bool(more.any()):
        differing, beyond = more, " by more than rounding"
    first = int(differing.nonzero()[0])
    index = [int(each) for each in torch.unravel_index(torch.tensor(first), yours.shape)] if yours.dim() else []
    where = f"{name}{index or ''}"
    largest = float(away[differing].max())
    tells = 0 < ulps <= (TELLING_ULPS if yours.element_size() > 2 else SHORT_TELLING_ULPS)
    most = f", by {largest:.6g} at most{f' ({ulps} ULPs)' if tells else ''}" if math.isfinite(largest) else ""
    return (
        f"{name}: {int(differing.sum())} of {left.numel()} numbers differ{beyond}{most}; "
        f"the first is {where}: yours {float(left[first])!r}, the reference's {float(right[first])!r}"
    )
