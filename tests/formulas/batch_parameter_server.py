"""The trace of ``batch_parameter_server``: SGD with momentum on the mean of the trainers' gradients.

Draws, in float32. Parameters as torch draws them, layer by layer, from a generator of ``model``; with exact arithmetic
replaced by integers from -1 to 1, in the model's order, from the same generator afterwards. A trainer's draws, all from
a generator of its name: first the classes (batch_size, 1) of its images, the same in all rounds; then, round by round,
images (batch_size, 3, image_w, image_h), standard normal, or with exact arithmetic integers from -1 to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import torch
from torch.nn import functional as F

from tests.formulas.common import Tensors, default_draws, draws, recorded

Forward = Callable[[Tensors, Tensors, torch.Tensor], torch.Tensor]


def mlp(case: Any) -> tuple[torch.nn.Module, Forward]:
    """Connect pixels, eight units with ReLU, and scores."""

    def forward(p: Tensors, b: Tensors, x: torch.Tensor) -> torch.Tensor:
        return F.linear(F.linear(x.flatten(1), p["1.weight"], p["1.bias"]).relu(), p["3.weight"], p["3.bias"])

    layers = {"1": torch.nn.Linear(3 * case.image_w * case.image_h, 8), "3": torch.nn.Linear(8, case.num_classes)}
    return torch.nn.ModuleDict(layers), forward


def convnet(case: Any) -> tuple[torch.nn.Module, Forward]:
    """Connect eight channels of 3 × 3, normalized over the batch, with ReLU; their means over four quarters; scores."""

    def forward(p: Tensors, b: Tensors, x: torch.Tensor) -> torch.Tensor:
        x = F.conv2d(x, p["0.weight"], padding=1)
        b["1.num_batches_tracked"] += 1
        scale = p["1.weight"], p["1.bias"], True, 0.1, 1e-5
        x = F.batch_norm(x, b["1.running_mean"], b["1.running_var"], *scale).relu()
        return F.linear(F.adaptive_avg_pool2d(x, 2).flatten(1), p["5.weight"], p["5.bias"])

    convolution = torch.nn.Conv2d(3, 8, 3, bias=False)
    layers = {"0": convolution, "1": torch.nn.BatchNorm2d(8), "5": torch.nn.Linear(32, case.num_classes)}
    return torch.nn.ModuleDict(layers), forward


def resnet50(case: Any) -> tuple[torch.nn.Module, Forward]:
    """Take torchvision's own. `reference.training.vision` imports it wherever that can be done."""
    vision: Any = import_module("reference.training.vision")
    model = vision.torchvision.models.resnet50(num_classes=case.num_classes)
    call = torch.func.functional_call
    return model, lambda p, b, x: call(model, (p, b), (x,))


def initial(case: Any) -> tuple[Tensors, Tensors, Forward]:
    """Draw the parameters; with them the buffers, and the function that computes with both."""
    with default_draws(case.seed, "model"):
        model, forward = {"mlp": mlp, "convnet": convnet, "resnet50": resnet50}[case.model](case)
        values = {name: value.detach() for name, value in model.named_parameters()}
        if case.arithmetic == "exact":
            values = {name: torch.randint(-1, 2, value.shape) for name, value in values.items()}
    dtype = getattr(torch, case.dtype)
    buffers = {name: b.to(dtype) if b.is_floating_point() else b for name, b in model.named_buffers()}
    return {name: value.to(dtype).requires_grad_() for name, value in values.items()}, buffers, forward


def batches(case: Any, trainer: str) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Draw images, and give each a row with a one at its class."""
    numbers, dtype = draws(case.seed, trainer), getattr(torch, case.dtype)
    classes = torch.randint(case.num_classes, (case.batch_size, 1), generator=numbers)
    labels = (classes == torch.arange(case.num_classes)).to(dtype)
    shape = (case.batch_size, 3, case.image_w, case.image_h)
    while True:
        exact = case.arithmetic == "exact"
        images = torch.randint(-1, 2, shape, generator=numbers) if exact else torch.randn(shape, generator=numbers)
        yield images.to(dtype), labels


def mean(tensors: list[torch.Tensor]) -> torch.Tensor:
    """Add in the given order, then divide. Integers, which have no mean, are the first one's."""
    if not tensors[0].is_floating_point():
        return tensors[0]
    total = tensors[0]
    for tensor in tensors[1:]:
        total = total + tensor
    return total / len(tensors)


def trace(case: Any, given: Tensors) -> Tensors:
    """Let each trainer of a round start from the server's parameters and buffers, take means, and make one step.

    A trainer's loss is the mean of (score - label)², or with exact arithmetic Σ score × (label + 1).
    """
    values, buffers, forward = initial(case)
    names = [f"trainer{number}" for number in range(1, case.trainers + 1)]
    data = {name: batches(case, name) for name in names}
    # torch's, of which this kernel rounds in its own way: v = momentum × v + gradient; p = p - lr × v.
    optimizer = torch.optim.SGD(values.values(), lr=case.lr, momentum=case.momentum, fused=True)
    found = {f"initial/{name}": value.detach().clone() for name, value in values.items()}
    for step in range(case.steps):
        order = given.get(f"{step:04d}/arrivals", torch.arange(case.trainers))
        gradients, after = [], []
        for trainer in (names[rank] for rank in order.tolist()):
            own, (x, y) = {name: buffer.clone() for name, buffer in buffers.items()}, next(data[trainer])
            scores = forward(values, own, x)
            loss = (scores * (y + 1)).sum() if case.arithmetic == "exact" else F.mse_loss(scores, y)
            found[f"{step:04d}/loss/{trainer}"] = loss.detach()
            gradients.append(torch.autograd.grad(loss, list(values.values())))
            after.append(own)
        for value, *each in zip(values.values(), *gradients, strict=True):
            value.grad = mean(each)
        optimizer.step()
        buffers = {name: mean([own[name] for own in after]) for name in buffers}
        found |= {f"{step:04d}/gradient/{n}": v.grad.clone() for n, v in values.items() if v.grad is not None}
        found |= {f"{step:04d}/parameter/{name}": value.detach().clone() for name, value in values.items()}
        found |= {f"{step:04d}/buffer/{name}": buffer for name, buffer in buffers.items()}
    return {**recorded(case, found, case.steps - 1), **given}
