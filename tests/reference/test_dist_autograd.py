"""Distributed autograd against plain autograd, bit for bit."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch import nn, optim
from torch.distributed.optim import DistributedOptimizer

import reference.dist_autograd
from reference.dist_autograd import Case, create_parameter, loss_of, value
from reference.outcome import Raised
from reference.world import launch
from tests.support.runs import against_twin, launch_and_wait, run


def test_exact_gradients_equal_the_twins_bits() -> None:
    trace = run(Case(arithmetic="exact", dtype="float64", lr=0.125))
    assert against_twin(trace).equal
    assert all(bool((16**5 * tensor).frac().eq(0).all()) for tensor in trace.tensors.values())


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


def break_a_context(broken: int, role: str) -> None:
    """A ``before``: one context has no loss."""

    def loss(context: int, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if context == broken:
            raise ArithmeticError("no loss today")
        return loss_of(context, a, b)

    reference.dist_autograd.loss_of = loss


@pytest.mark.parametrize("broken", [0, 1])
def test_a_context_that_fails_ends_the_run_at_once(broken: int) -> None:
    """Its error is the run's, although another context waits for all."""
    outcome = launch_and_wait(Case(timeout=300), before=partial(break_a_context, broken), deadline=20)["worker0"]
    assert isinstance(outcome, Raised)
    assert outcome.type == "ArithmeticError"


class NoStep(DistributedOptimizer):
    def step(self, context_id: int) -> None:
        raise ArithmeticError("no step today")


def break_the_steps(role: str) -> None:
    reference.dist_autograd.DistributedOptimizer = NoStep  # type: ignore[attr-defined]


def test_a_context_whose_step_fails_keeps_no_other_waiting() -> None:
    outcome = launch_and_wait(Case(timeout=300), before=break_the_steps, deadline=20)["worker0"]
    assert isinstance(outcome, Raised)
    assert outcome.type == "ArithmeticError"
