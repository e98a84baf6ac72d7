"""Random batches for a linear layer that has something to learn."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from reference.training.rng import generator
from reference.training.training_case import TrainingCase

Batch = tuple[torch.Tensor, torch.Tensor]


def linear_batches(case: TrainingCase, name: str, batch_size: int, inputs: int, outputs: int) -> Iterator[Batch]:
    """Draw for role ``name``, at each step, data (batch_size, inputs) and target (batch_size, outputs).

    The target is a fixed linear function of the data, so that there is something to learn; the published target is
    noise. It is computed in the case's dtype, because a float32 product in a float64 case would round as float32 does.
    In exact arithmetic both are whole numbers from -2 to 2.
    """
    draws = generator(case.seed, name)
    dtype = case.torch_dtype
    teacher = torch.randn(inputs, outputs, generator=generator(case.seed, "teacher"))
    for _ in range(case.steps):
        if case.is_exact:
            data = torch.randint(-2, 3, (batch_size, inputs), generator=draws).float()
            target = torch.randint(-2, 3, (batch_size, outputs), generator=draws).float()
        else:
            data = torch.randn(batch_size, inputs, generator=draws)
            target = data.to(dtype) @ teacher.to(dtype)
        yield data.to(dtype), target.to(dtype)
