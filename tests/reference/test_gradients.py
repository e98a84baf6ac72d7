"""Gradients of several losses: the order in which they are added."""

from __future__ import annotations

import itertools

import pytest
import torch

from reference.training.gradients import backward_in_order

FACTORS = torch.tensor([2.0**25, 1.0, -(2.0**25)])  # float32: their sum is 1 or 0, as they are added


@pytest.mark.parametrize("made", list(itertools.permutations(range(3))))
def test_gradients_are_added_in_the_order_of_the_losses(made: tuple[int, ...]) -> None:
    """Whichever loss's graph was made first."""
    weight = torch.ones((), requires_grad=True)
    graphs = {index: weight * FACTORS[index] for index in made}
    backward_in_order([graphs[index] for index in (0, 2, 1)])
    assert weight.grad is not None
    assert weight.grad.item() == 1.0
    weight.grad.zero_()
    backward_in_order([weight * factor for factor in FACTORS])
    assert weight.grad.item() == 0.0


def test_the_sum_of_the_losses_has_no_graph() -> None:
    weight = torch.tensor(3.0, requires_grad=True)
    total = backward_in_order([weight * 2, weight * 5])
    assert total.item() == 21.0
    assert total.requires_grad is False
