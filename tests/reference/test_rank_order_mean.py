"""The means of the trainers' gradients, in rank order and by DDP's own allreduce, against sums of Python's floats."""

from __future__ import annotations

import math

import pytest
import torch

from reference.rpc.ddp import mean, mean_of_allreduce

# Three addends whose float64 sum depends on the order: (1 + 2^60) - 2^60 = 0, but (2^60 - 2^60) + 1 = 1.
LARGE = 2.0**60
ORDERS = [([1.0, LARGE, -LARGE], 0.0), ([LARGE, -LARGE, 1.0], 1.0), ([LARGE, 1.0, -LARGE], 0.0)]


def gradients_of(values: list[float]) -> list[torch.Tensor]:
    return [torch.tensor([value, 3 * value], dtype=torch.float64) for value in values]


@pytest.mark.parametrize(("values", "total"), ORDERS)
def test_mean_adds_from_the_first_gradient_to_the_last(values: list[float], total: float) -> None:
    assert mean(gradients_of(values)).tolist() == [total / 3, 3 * total / 3]


def test_mean_leaves_the_gradients_as_they_were() -> None:
    gradients = gradients_of([1.0, 2.0, 6.0])
    assert mean(gradients).tolist() == [3.0, 9.0]
    assert [gradient.tolist() for gradient in gradients] == [[1.0, 3.0], [2.0, 6.0], [6.0, 18.0]]


def test_mean_divides_once_and_allreduce_multiplies_every_gradient() -> None:
    """With 0.1 three times, (0.1 + 0.1 + 0.1) / 3 is 0.10000000000000002 in float64, three thirds of 0.1 add to 0.1."""
    third = 0.1 * (1 / 3)
    gradients = [torch.tensor(0.1, dtype=torch.float64)] * 3
    assert mean(gradients).item() == (0.1 + 0.1 + 0.1) / 3 == 0.10000000000000002
    assert mean_of_allreduce(gradients).item() == third + third + third == 0.1


def test_the_mean_of_negative_zeros_keeps_its_sign() -> None:
    zeros = [torch.tensor(-0.0)] * 2
    assert math.copysign(1, mean(zeros).item()) == math.copysign(1, mean_of_allreduce(zeros).item()) == -1
