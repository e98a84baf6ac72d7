"""The trace of ``pipeline``, from its formula: SGD on the mean square error of a model that two workers hold.

A batch is ``num_split`` micro-batches, in the order of its images; where that does not divide the number of images, the
first ones have one more. Nothing but batch norm sees them: it normalises each by itself and updates its running
statistics with each in turn. The loss is the mean of (score - label)² over all images and classes, or in exact
arithmetic the sum of score × (label + 1). Every parameter p becomes p - lr × gradient.

Which generator draws what, each seeded with `seed_of` its name:

- ``shard1`` and ``shard2``: torch's default one, for the half of that number. The mlp draws its linear layers in their
  order, and for exact arithmetic then replaces them one by one, in the same order, by integers from -1 to 1. ResNet50
  draws every convolution (and the last, linear layer) as torch does, and then each convolution by Kaiming's rule.
- ``master``: the class of each image of a batch, once and the same for all batches; then each batch's images, from
  the normal distribution, or in exact arithmetic integers from -1 to 1. All float32, converted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.formulas.common import Tensors, copies, default_draws, draws, recorded

Model = Callable[[torch.Tensor], torch.Tensor]


def trace(case: Any, given: Tensors) -> Tensors:
    """Compute every tensor of the trace of ``case`` from the case's plain numbers alone."""
    p, buffers, model = mlp(case) if case.model == "mlp" else resnet(case)
    found = copies(p, "initial")
    for step, (images, labels) in enumerate(batches(case)):
        scores = torch.cat([model(part) for part in images.split(sizes(case.batch_size, case.num_split))])
        loss = (scores * (labels + 1)).sum() if case.arithmetic == "exact" else F.mse_loss(scores, labels)
        gradients = dict(zip(p, torch.autograd.grad(loss, list(p.values())), strict=True))
        with torch.no_grad():
            for name, gradient in gradients.items():
                p[name].sub_(gradient, alpha=case.lr)
        found |= copies(gradients, f"{step:04d}/gradient") | copies(p, f"{step:04d}/parameter")
        found |= copies(buffers, f"{step:04d}/buffer") | copies({"master": loss}, f"{step:04d}/loss")
    return recorded(case, found, case.steps - 1)


def sizes(images: int, parts: int) -> list[int]:
    """Split ``images`` into nearly equal parts, the larger ones first."""
    return [images // parts + (part < images % parts) for part in range(parts)]


def batches(case: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Images (batch_size, 3, image_h, image_w), and labels (batch_size, num_classes), 1 for the image's class."""
    own, dtype = draws(case.seed, "master"), getattr(torch, case.dtype)
    classes = torch.randint(case.num_classes, (case.batch_size,), generator=own)
    labels = torch.eye(case.num_classes, dtype=dtype)[classes]
    shape = (case.batch_size, 3, case.image_h, case.image_w)
    for _ in range(case.steps):
        integers = case.arithmetic == "exact"
        images = torch.randint(-1, 2, shape, generator=own) if integers else torch.randn(shape, generator=own)
        yield images.to(dtype), labels


def mlp(case: Any) -> tuple[Tensors, Tensors, Model]:
    """``depth`` linear layers a half, a ReLU after each but the very last; ``width`` units between any two.

    Layer i of a half is number 2 i of its modules, and one later in the first, which begins with a Flatten.
    """
    units = [3 * case.image_h * case.image_w, *[case.width] * (2 * case.depth - 1), case.num_classes]
    p: Tensors = {}
    for half in (1, 2):
        places = range((half - 1) * case.depth, half * case.depth)
        with default_draws(case.seed, f"shard{half}"):
            layers = [nn.Linear(units[place], units[place + 1]) for place in places]
            for number, layer in enumerate(layers):
                for kind, values in (("weight", layer.weight), ("bias", layer.bias)):
                    drawn = torch.randint(-1, 2, values.shape) if case.arithmetic == "exact" else values.detach()
                    name = f"shard{half}.seq.{2 * number + (half == 1)}.{kind}"
                    p[name] = drawn.to(getattr(torch, case.dtype)).requires_grad_()

    def model(images: torch.Tensor) -> torch.Tensor:
        *hidden, last = zip(*[iter(p.values())] * 2, strict=True)
        values = images.flatten(1)
        for weight, bias in hidden:
            values = F.linear(values, weight, bias).relu()
        return F.linear(values, *last)

    return p, {}, model


def resnet(case: Any) -> tuple[Tensors, Tensors, Model]:
    """torchvision's ResNet50: to its second layer of blocks on worker1, and from its third on worker2."""
    vision: Any = import_module("reference.training.vision")  # imports torchvision, even beside a CPU build of torch
    model = vision.torchvision.models.resnet50(num_classes=case.num_classes)
    halves = {
        1: {"seq.0": model.conv1, "seq.1": model.bn1, "seq.4": model.layer1, "seq.5": model.layer2},
        2: {"seq.0": model.layer3, "seq.1": model.layer4, "fc": model.fc},
    }
    for half, parts in halves.items():
        with default_draws(case.seed, f"shard{half}"):
            modules = [module for part in parts.values() for module in part.modules()]
            for module in modules:
                if isinstance(module, nn.Conv2d | nn.Linear):
                    module.reset_parameters()
            for module in modules:
                if isinstance(module, nn.Conv2d):
                    nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    model.to(getattr(torch, case.dtype)).train()
    named = {f"shard{half}.{name}": part for half, parts in halves.items() for name, part in parts.items()}
    p = {f"{name}.{inner}": value for name, part in named.items() for inner, value in part.named_parameters()}
    buffers = {f"{name}.{inner}": value for name, part in named.items() for inner, value in part.named_buffers()}
    return p, buffers, model
