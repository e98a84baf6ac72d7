"""Add up in another order: the functions that every summing operator uses under `reordering.Reordered`."""

from __future__ import annotations

import functools
from typing import Any, Protocol

import numpy as np
import torch

Tensor = torch.Tensor


class Orders(Protocol):
    """The source of random orders: `reordering.Reordered`."""

    def order(self, count: int) -> Tensor:
        """A permutation of ``count`` numbers."""
        ...

    def coin(self) -> bool: ...

    def split(self, count: int) -> list[Tensor]:
        """A permutation of ``count`` numbers, in pieces."""
        ...

    def in_turn(self, count: int, size: int, like: Tensor) -> bool:
        """Whether to add the ``count`` terms of a sum one after the other.

        All terms together have ``size`` elements, with the dtype and on the device of ``like``.
        """
        ...


def total(parts: list[Tensor]) -> Tensor:
    return functools.reduce(torch.add, parts)


def added_in_turn(terms: Tensor) -> Tensor:
    """Sum over the first axis one term after the other, as a plain loop does.

    torch adds many terms at once, which rounds less: a correct loop over thousands of terms rounds several times as
    much.
    """
    with np.errstate(all="ignore"):  # a sum that overflows is infinite, as in torch
        return torch.from_numpy(np.add.accumulate(terms.numpy(), axis=0)[-1:].copy())[0]


def back(order: Tensor) -> Tensor:
    """Invert a permutation."""
    return torch.argsort(order)


def sum_over(by: Orders, x: Tensor, dims: Any = None, keepdim: bool = False, **kwargs: Any) -> Tensor:
    """Sum over these axes, by default over all: each axis is permuted, and the longest is split into pieces."""
    axes = [dim % x.dim() for dim in dims or range(x.dim())]
    if not axes:
        return x.sum(**kwargs)
    for axis in axes:
        x = x.index_select(axis, by.order(x.shape[axis]))
    longest = max(axes, key=lambda axis: x.shape[axis])
    parts = [x.index_select(longest, each) for each in by.split(x.shape[longest])]
    return total([part.sum(axes, keepdim, **kwargs) for part in parts])
