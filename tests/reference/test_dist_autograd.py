"""Distributed autograd against plain autograd, bit for bit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch import nn, optim
from torch.distributed.optim import DistributedOptimizer
from torch.distributed.rpc import RRef

from reference.dist_autograd import Case, create_parameter, gradient, value
from reference.world import launch
from tests.support.runs import against_twin, run


@pytest.mark.parametrize("contexts", [1, 2, 5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equals_its_twin(contexts: int, dtype: str) -> None:
    trace = run(Case(contexts=contexts, dtype=dtype, lr=0.01))
    assert against_twin(trace).equal
    assert len(trace.tensors) == 2 + 5 * (contexts + 2 * contexts + 2)


def test_exact_gradients_equal_the_twins_bits() -> None:
    trace = run(Case(arithmetic="exact", dtype="float64", lr=0.125))
    assert against_twin(trace).equal
    assert all(bool((16**5 * tensor).frac().eq(0).all()) for tensor in trace.tensors.values())


def test_training_lowers_the_loss() -> None:
    losses = run(Case(steps=10)).losses()
    assert losses[-1] < losses[0] / 1000


def two_contexts_at_once() -> list[torch.Tensor]:
    """Runs on worker0: with both contexts open, the gradients of each, then the parameter's .grad."""
    parameter = rpc.remote("worker1", create_parameter, args=(Case(), "worker1"))
    both_open: list[int] = []

    def one(scale: int) -> torch.Tensor:
        with dist_autograd.context() as context_id:
            both_open.append(context_id)
            dist_autograd.backward(context_id, [(scale * parameter.to_here()).sum()])  # type: ignore[attr-defined]
            return rpc.rpc_sync("worker1", gradient, args=(context_id, parameter))  # type: ignore[no-any-return]

    with ThreadPoolExecutor(2) as threads:
        gradients = list(threads.map(one, (3, 5)))
    assert len(set(both_open)) == 2
    return [*gradients, rpc.rpc_sync("worker1", local_grad_is_none, args=(parameter,))]


def local_grad_is_none(parameter: RRef[Any]) -> torch.Tensor:
    """Runs on the owner."""
    return torch.tensor(parameter.local_value().grad is None)


def test_contexts_keep_their_gradients_apart_and_off_the_parameter() -> None:
    with launch(["worker0", "worker1"]) as world:
        three, five, none = world.call("worker0", two_contexts_at_once)
    assert torch.equal(three, torch.full((3, 3), 3.0))
    assert torch.equal(five, torch.full((3, 3), 5.0))
    assert none


def create_nn_parameter() -> nn.Parameter:
    """Runs on the owner: the published form of a remote parameter."""
    return nn.Parameter(torch.ones(2))


def step_over(create: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Runs on worker0: the remote parameter before and after one step of 0.25 with gradient 1."""
    if create == "parameter":
        parameter = rpc.remote("worker1", create_nn_parameter)
    else:
        parameter = rpc.remote("worker1", create_parameter, args=(Case(), "x"))
    before = rpc.rpc_sync("worker1", value, args=(parameter,)).clone()
    optimizer = DistributedOptimizer(optim.SGD, [parameter], lr=0.25)
    with dist_autograd.context() as context_id:
        dist_autograd.backward(context_id, [parameter.to_here().sum()])  # type: ignore[attr-defined]
        optimizer.step(context_id)
    return before, rpc.rpc_sync("worker1", value, args=(parameter,))


def test_a_fetched_nn_parameter_is_never_trained() -> None:
    """Erratum S3.3: no error, no step. A plain tensor that requires gradients is stepped (torch 2.13)."""
    with launch(["worker0", "worker1"]) as world:
        before, after = world.call("worker0", step_over, "parameter")
        assert torch.equal(before, after)
        before, after = world.call("worker0", step_over, "tensor")
        assert torch.equal(before - 0.25, after)
