"""Compute the mean of the trainers' gradients in rank order; DDP's own allreduce adds in an order of its own."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
import torch.distributed as dist


def mean(gradients: Sequence[torch.Tensor]) -> torch.Tensor:
    """The mean of the trainers' gradients, added in the order in which they are given, which is rank order."""
    total = gradients[0].clone()
    for gradient in gradients[1:]:
        total += gradient
    return total.div_(len(gradients))


def mean_in_rank_order(state, bucket):  # type: ignore[no-untyped-def]
    """DDP's communication hook on every trainer: DDP calls it instead of allreduce for a bucket of dense gradients.

    It has no annotations, because DDP refuses those of a module that, like this one, postpones their evaluation.
    """
    gathered = [torch.empty_like(bucket.buffer()) for _ in range(dist.get_world_size())]
    # It waits here, because Python code in gloo's own thread, by `then`, can deadlock with the group's destructor.
    dist.all_gather(gathered, bucket.buffer())
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(mean(gathered))
    return done


def mean_of_allreduce(gradients: Sequence[torch.Tensor]) -> torch.Tensor:
    """Compute in the twin what DDP's own allreduce computes: it multiplies by 1/n before it adds."""
    # The sum begins with the first gradient, because beginning with 0 would turn a sum of -0.0 into 0.0.
    return functools.reduce(torch.add, [gradient * (1 / len(gradients)) for gradient in gradients])
