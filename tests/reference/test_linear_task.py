"""Batches for a linear layer: one linear function of all data, in the case's dtype, and whole numbers where exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from reference.training.data import Batch, linear_batches
from reference.training.rng import seed_for
from reference.training.training_case import ExactableCase


@dataclass(frozen=True)
class Sample(ExactableCase):
    """A case without fields of its own."""


def drawn(name: str = "a", steps: int = 3, **fields: Any) -> list[Batch]:
    return list(linear_batches(Sample(steps=steps, **fields), name, 6, 4, 2))


def normal(name: str, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed_for(5, name)))


def test_the_target_is_one_linear_function_of_all_data() -> None:
    teacher = normal("teacher", 4, 2)
    for data, target in [*drawn("a", seed=5), *drawn("b", seed=5)]:
        assert (data.shape, target.shape) == ((6, 4), (6, 2))
        assert torch.equal(target, data @ teacher)


def test_in_float64_the_product_is_one_of_float64() -> None:
    for (narrow, _), (data, target) in zip(drawn(seed=5), drawn(seed=5, dtype="float64"), strict=True):
        assert data.dtype == target.dtype == torch.float64
        assert torch.equal(data, narrow.double())
        assert torch.equal(target, data @ normal("teacher", 4, 2).double())


def test_data_are_the_draws_of_the_name_step_by_step() -> None:
    draws = torch.Generator().manual_seed(seed_for(5, "b"))
    for (data, _), (other, _) in zip(drawn("b", seed=5), drawn("a", seed=5), strict=True):
        assert torch.equal(data, torch.randn(6, 4, generator=draws))
        assert not torch.equal(data, other)


def test_exact_batches_are_small_whole_numbers() -> None:
    batches = drawn(arithmetic="exact", dtype="float64", steps=20)
    for place in range(2):
        tensors = torch.stack([batch[place] for batch in batches])
        assert tensors.dtype == torch.float64
        assert set(tensors.flatten().tolist()) == {-2.0, -1.0, 0.0, 1.0, 2.0}
