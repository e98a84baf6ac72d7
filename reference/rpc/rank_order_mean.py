"""The mean of the trainers' gradients, added in rank order; DDP's own allreduce has an order of its own."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
import torch.distributed as dist


def mean(gradients: Sequence[torch.Tensor]) -> torch.Tensor:
    """The mean of the trainers' gradients, which are given in rank order and added in it."""
    total = gradients[0].clone()
    for gradient in gradients[1:]:
        total += gradient
    return total.div_(len(gradients))


def mean_in_rank_order(state, bucket):  # type: ignore[no-untyped-def]
    """Runs on every trainer: what DDP calls, in place of its own allreduce, for a bucket of dense gradients.

    Without annotations: DDP refuses those of a module that, like this one, postpones their evaluation.
    """
    gathered = [torch.empty_like(bucket.buffer()) for _ in range(dist.get_world_size())]
    # Waits here: Python code in gloo's own thread, by `then`, can meet the group's destructor in a deadlock.
    dist.all_gather(gathered, bucket.buffer())
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(mean(gathered))
    return done


def mean_of_allreduce(gradients: Sequence[torch.Tensor]) -> torch.Tensor:
    """What DDP's own allreduce makes of the gradients, in the twin: it multiplies by 1/n before it adds."""
    # From the first on, not from 0, which would make 0.0 of a sum of -0.0.
    return functools.reduce(torch.add, [gradient * (1 / len(gradients)) for gradient in gradients])
