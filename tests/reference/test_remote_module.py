"""A trainer asks a module on another role for parameters by reference, their values, and a context's gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch import nn

from reference.rnn import _gradients, _parameter_rrefs, _values
from reference.rpc.remote_method import _remote_method
from reference.world import World

pytestmark = pytest.mark.world("a", "b")


class Scale(nn.Module):
    """Lives on ``b``: computes weight times x plus bias."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([2.0, 3.0]))
        self.bias = nn.Parameter(torch.tensor([5.0, 7.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x + self.bias


def references() -> tuple[list[str], list[list[float]]]:
    """Runs on a: the owners and values of a module's parameters."""
    rrefs = _remote_method(_parameter_rrefs, rpc.remote("b", Scale))
    return [rref.owner_name() for rref in rrefs], [rref.to_here().tolist() for rref in rrefs]


def test_parameters_are_referred_to_in_the_modules_order(world: World) -> None:
    """Erratum S3.3: on their owner."""
    assert world.call("a", references) == (["b", "b"], [[2.0, 3.0], [5.0, 7.0]])


def fetched() -> list[Any]:
    """Runs on a."""
    values = _remote_method(_values, rpc.remote("b", Scale))
    return [(name, value.tolist(), value.requires_grad) for name, value in values.items()]


def test_values_are_the_parameters_without_their_graph(world: World) -> None:
    assert world.call("a", fetched) == [("weight", [2.0, 3.0], False), ("bias", [5.0, 7.0], False)]


INPUTS = ([11.0, 13.0], [17.0, 19.0])


def gradients_of_two_contexts() -> list[dict[str, list[float]]]:
    """Runs on a: the gradients of a module's sum, with each of two inputs in a context of its own."""
    module, found = rpc.remote("b", Scale), []
    for x in INPUTS:
        with dist_autograd.context() as context:
            loss = _remote_method(Scale.forward, module, torch.tensor(x)).sum()
            dist_autograd.backward(context, [loss])
            found.append(_remote_method(_gradients, module, context))
    return [{name: gradient.tolist() for name, gradient in each.items()} for each in found]


def test_gradients_are_those_of_the_context(world: World) -> None:
    wanted = [{"weight": x, "bias": [1.0, 1.0]} for x in INPUTS]
    assert world.call("a", gradients_of_two_contexts) == wanted
