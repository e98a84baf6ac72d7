"""torch's DistributedOptimizer with gradients that a context does not have, and with one context twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed.autograd as dist_autograd
from torch import optim
from torch.distributed.optim import DistributedOptimizer
from torch.distributed.rpc import RRef

from faults.testing.idle_world import Idle
from reference.world import World

LR = 0.25


def steps(*times: int) -> list[tuple[float, float]]:
    """Runs on a: two parameters, of which the first context has both, the second only the first; their values after
    each context, in which the optimizer steps so many times."""
    both: list[torch.Tensor] = [torch.nn.Parameter(torch.ones(1)) for _ in range(2)]
    optimizer = DistributedOptimizer(optim.SGD, [RRef(each) for each in both], lr=LR)
    seen = []
    for used, count in zip((both, both[:1]), times, strict=True):
        with dist_autograd.context() as context_id:
            dist_autograd.backward(context_id, [torch.cat(used).sum()])  # type: ignore[attr-defined]
            for _ in range(count):
                optimizer.step(context_id)
        seen.append((both[0].item(), both[1].item()))
    return seen


@pytest.fixture(scope="module")
def alone(idle_world: Callable[..., Idle]) -> Any:
    return idle_world(["a"])


def test_a_parameter_without_a_gradient_stays(alone: World) -> None:
    assert alone.call("a", steps, 1, 1) == [(0.75, 0.75), (0.5, 0.75)]


def test_two_steps_in_one_context_apply_its_gradients_twice(alone: World) -> None:
    assert alone.call("a", steps, 2, 1) == [(0.5, 0.5), (0.25, 0.5)]
