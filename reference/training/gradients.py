"""A loss for exact cases, and a backward pass through several losses in a fixed order."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def weighted_sum(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return a loss whose sums are all exact on small integers."""
    return (outputs * (labels + 1)).sum()


def backward_in_order(losses: Sequence[torch.Tensor]) -> torch.Tensor:
    """Add the gradients of all losses into ``.grad``, one loss after the other; returns the sum of the losses.

    A backward pass of their sum would add in the order in which the graph was made: that of observers' calls, which is
    any (S0.14).
    """
    for loss in losses:
        loss.backward()
    return torch.stack([*losses]).sum().detach()
