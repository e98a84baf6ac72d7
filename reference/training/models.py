"""The models that the batch-updating parameter server trains, drawn in float32 from a case's seed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import nn

from reference.training.rng import build_seeded
from reference.training.vision import resnet50

HIDDEN = 8  # units of the mlp's hidden layer, channels of the convnet

PARAMETERS = {"resnet50": 161, "convnet": 5, "mlp": 4}  # the number of tensors that are trained


def _mlp(image_w: int, image_h: int, num_classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(3 * image_w * image_h, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, num_classes)
    )


def _convnet(num_classes: int) -> nn.Module:
    """One layer of each kind in a ResNet: convolution, batch norm, ReLU, pooling, linear."""
    return nn.Sequential(
        nn.Conv2d(3, HIDDEN, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(HIDDEN),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * HIDDEN, num_classes),
    )


def build_model(
    kind: str, *, image_w: int, image_h: int, num_classes: int, seed: int, dtype: str, exact: bool = False
) -> nn.Module:
    """Build a model for images (N, 3, image_w, image_h), on the CPU, in ``dtype``.

    ``kind`` is resnet50, convnet or mlp. ``exact`` replaces the parameters by integers from -1 to 1. A seed gives the
    same float32 numbers for every dtype.
    """
    kinds: dict[str, Callable[[], nn.Module]] = {
        "resnet50": partial(resnet50, num_classes=num_classes),
        "convnet": partial(_convnet, num_classes),
        "mlp": partial(_mlp, image_w, image_h, num_classes),
    }
    return build_seeded(kinds[kind], seed=seed, name="model", dtype=dtype, integers=int(exact))
