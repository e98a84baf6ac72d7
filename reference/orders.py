"""Sums in another order: what every operator that sums is made of under `reordering.Reordered`."""

from __future__ import annotations

import functools
from typing import Any, Protocol

import torch

Tensor = torch.Tensor


class Orders(Protocol):
    """Where the orders come from."""

    def order(self, count: int) -> Tensor:
        """A permutation of ``count`` numbers."""
        ...

    def coin(self) -> bool: ...

    def split(self, count: int) -> list[Tensor]:
        """A permutation of ``count`` numbers, in pieces."""
        ...


def total(parts: list[Tensor]) -> Tensor:
    return functools.reduce(torch.add, parts)


def back(order: Tensor) -> Tensor:
    """The permutation that undoes this one."""
    return torch.argsort(order)


def sum_over(by: Orders, x: Tensor, dims: Any = None, keepdim: bool = False, **kwargs: Any) -> Tensor:
    """The sum over these axes, all of them if none: each permuted, and the longest in pieces."""
    axes = [dim % x.dim() for dim in dims or range(x.dim())]
    if not axes:
        return x.sum(**kwargs)
    for axis in axes:
        x = x.index_select(axis, by.order(x.shape[axis]))
    longest = max(axes, key=lambda axis: x.shape[axis])
    parts = [x.index_select(longest, each) for each in by.split(x.shape[longest])]
    return total([part.sum(axes, keepdim, **kwargs) for part in parts])
