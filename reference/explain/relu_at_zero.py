"""ReLU with another gradient at 0, where its two sides meet and programs differ."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch


class _ReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, slope: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.slope = slope
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        return grads[0] * ((x > 0) + ctx.slope * (x == 0)), None


@contextmanager
def relu_at_zero(slope: float) -> Iterator[None]:
    """Within the block ``torch.nn.functional.relu``, which ``nn.ReLU`` calls, has the gradient ``slope`` at 0."""

    def relu(x: torch.Tensor, inplace: bool = False) -> torch.Tensor:
        found: torch.Tensor = _ReLU.apply(x, slope)  # type: ignore[no-untyped-call]
        return found

    with mock.patch("torch.nn.functional.relu", relu):
        yield
