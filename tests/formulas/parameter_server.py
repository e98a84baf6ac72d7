"""The trace of ``parameter_server``: one linear layer, trained with gradients of weights that are not the newest.

Draws, in float32, then converted. The layer's weight and bias as torch draws them, from a generator of ``model``; with
exact arithmetic replaced by integers from -2 to 2, weight first, from the same generator afterwards. The data of every
step from a generator of the worker's name: (batch_size, inputs), standard normal. The target is data × teacher, in the
case's dtype; the teacher is (inputs, outputs), standard normal from a generator of ``teacher``: one teacher for all.
With exact arithmetic data and then target are integers from -2 to 2, both from the worker's generator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional as F

from tests.formulas.common import Tensors, default_draws, draws, recorded

PULL, PUSH = 0, 1


def initial(case: Any) -> Tensors:
    """Draw the layer."""
    with default_draws(case.seed, "model"):
        layer = torch.nn.Linear(case.inputs, case.outputs)
        values = {"weight": layer.weight.detach(), "bias": layer.bias.detach()}
        if case.arithmetic == "exact":
            values = {name: torch.randint(-2, 3, value.shape) for name, value in values.items()}
    return {name: value.to(getattr(torch, case.dtype)) for name, value in values.items()}


def batches(case: Any, worker: str) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Draw a worker's data and targets, step by step."""
    numbers, dtype = draws(case.seed, worker), getattr(torch, case.dtype)
    teacher = torch.randn(case.inputs, case.outputs, generator=draws(case.seed, "teacher"))
    x_shape, y_shape = (case.batch_size, case.inputs), (case.batch_size, case.outputs)
    while True:
        if case.arithmetic == "exact":
            x, y = (torch.randint(-2, 3, shape, generator=numbers) for shape in (x_shape, y_shape))
        else:
            x = torch.randn(x_shape, generator=numbers)
            y = torch.matmul(x.to(dtype), teacher.to(dtype))
        yield x.to(dtype), y.to(dtype)


def derived(case: Any, weights: Tensors, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
    """Derive the loss: the mean of squared differences, or with exact arithmetic Σ output × target."""
    weight, bias = (weights[name].clone().requires_grad_() for name in ("weight", "bias"))
    output = F.linear(x, weight, bias)
    loss = (output * y).sum() if case.arithmetic == "exact" else (output - y).pow(2).mean()
    found = torch.autograd.grad(loss, (weight, bias))
    return loss.detach(), {"weight": found[0], "bias": found[1]}


def trace(case: Any, given: Tensors) -> Tensors:
    """Follow the order of events: the server applies each push at once, by plain SGD.

    A worker's n-th gradients are those of the weights that its n-th pull brought; with staleness 1, its (n-1)-th. Its
    first gradients are those of its first pull in either case.
    """
    names = [f"worker{number}" for number in range(1, case.workers + 1)]
    data = {name: batches(case, name) for name in names}
    pulled: dict[str, list[Tensors]] = {name: [] for name in names}
    sent = dict.fromkeys(names, 0)
    server, done = initial(case), 0
    found = {f"initial/{name}": value for name, value in server.items()}
    for kind, rank in given["order/events"].tolist():
        worker = names[rank]
        if kind == PULL:
            pulled[worker].append(server)
            continue
        weights = pulled[worker][max(0, sent[worker] - case.staleness)]
        loss, gradients = derived(case, weights, *next(data[worker]))
        server = {name: torch.sub(value, gradients[name], alpha=case.lr) for name, value in server.items()}
        found[f"{done:04d}/loss/{worker}"] = loss
        found |= {f"{done:04d}/gradient/{name}": value for name, value in gradients.items()}
        found |= {f"{done:04d}/parameter/{name}": value for name, value in server.items()}
        sent[worker], done = sent[worker] + 1, done + 1
    return {**recorded(case, found, done - 1), "order/events": given["order/events"]}
