"""Bags of rows with a class for each bag: the class for which most of its rows vote."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from reference.training.rng import generator


def voting_bags(
    seed: int, name: str, steps: int, shape: tuple[int, int], rows: int, num_classes: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Draw for role ``name``, at each step, row indices of ``shape`` (batch_size, bag) and classes (batch_size,).

    Every row votes for one class, the same in all batches. The class with the most votes wins; in a tie the lowest one.
    """
    votes = torch.randint(num_classes, (rows,), generator=generator(seed, "votes"))
    draws = generator(seed, name)
    for _ in range(steps):
        indices = torch.randint(rows, shape, generator=draws)
        counts = torch.zeros(shape[0], num_classes, dtype=torch.int64)
        yield indices, counts.scatter_add_(1, votes[indices], torch.ones_like(indices)).argmax(1)
