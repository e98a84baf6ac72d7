"""Random images with one-hot labels, as the published trainers draw them."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from reference.training.rng import generator
from reference.training.training_case import TrainingCase

Batch = tuple[torch.Tensor, torch.Tensor]


def random_images(case: TrainingCase, name: str, shape: tuple[int, int, int, int], num_classes: int) -> Iterator[Batch]:
    """Draw for role ``name``, at each step, images of ``shape`` (batch, 3, …) and one-hot labels (batch, num_classes).

    All steps have the same labels, as published. In exact arithmetic the images are whole numbers from -1 to 1.
    """
    draws = generator(case.seed, name)
    one_hot_indices = torch.randint(num_classes, (shape[0], 1), generator=draws)
    labels = torch.zeros(shape[0], num_classes).scatter_(1, one_hot_indices, 1)
    for _ in range(case.steps):
        if case.is_exact:
            inputs = torch.randint(-1, 2, shape, generator=draws).float()
        else:
            inputs = torch.randn(shape, generator=draws)
        yield inputs.to(case.torch_dtype), labels.to(case.torch_dtype)
