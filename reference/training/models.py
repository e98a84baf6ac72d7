"""The models of the tutorials, drawn in float32 from a case's seed: whole ones, embeddings, and ResNet50 in halves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import nn

from reference.training.rng import build_seeded, generator
from reference.training.vision import Bottleneck, resnet50

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


def voting_bags(
    seed: int, name: str, steps: int, shape: tuple[int, int], rows: int, num_classes: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Draw for role ``name``, at each step, row indices of ``shape`` (batch_size, bag) and classes (batch_size,).

    Every row votes for one class, the same in all batches. The class with the most votes wins; in a tie the lowest one.
    """
    votes = torch.randint(num_classes, (rows,), generator=generator(seed, "votes"))
    draws = generator(seed, name)
    for _ in range(steps):
        indices = torch.randint(rows, shape, generator=draws)
        counts = torch.zeros(shape[0], num_classes, dtype=torch.int64)
        yield indices, counts.scatter_add_(1, votes[indices], torch.ones_like(indices)).argmax(1)


FEATURES = 512 * Bottleneck.expansion  # the number of features that ResNet50's second half has for an image


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """1 × 1 convolution, (N, in_planes, H, W) to (N, out_planes, H / stride, W / stride)."""
    return nn.Conv2d(in_planes, out_planes, kernel_size=1, stride=stride, bias=False)


class ResNetBase:
    """Builds the layers of one half, which begins with ``inplanes`` channels."""

    def __init__(self, inplanes: int) -> None:
        self._block = Bottleneck
        self._norm_layer = nn.BatchNorm2d
        self.inplanes = inplanes

    def _make_layer(self, planes: int, blocks: int, stride: int = 1) -> nn.Sequential:
        """Build ``blocks`` blocks, the first with ``stride``; their output has planes × expansion channels."""
        outplanes = planes * self._block.expansion
        downsample = None
        if stride != 1 or self.inplanes != outplanes:
            downsample = nn.Sequential(conv1x1(self.inplanes, outplanes, stride), self._norm_layer(outplanes))
        layers = [self._block(self.inplanes, planes, stride, downsample)]
        self.inplanes = outplanes
        layers += [self._block(self.inplanes, planes) for _ in range(1, blocks)]
        return nn.Sequential(*layers)

    def first_half(self) -> nn.Sequential:
        """Images (N, 3, H, W) to features (N, 512, H / 8, W / 8)."""
        return nn.Sequential(
            nn.Conv2d(3, self.inplanes, kernel_size=7, stride=2, padding=3, bias=False),
            self._norm_layer(self.inplanes),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
            self._make_layer(64, 3),
            self._make_layer(128, 4, stride=2),
        )

    def second_half(self) -> nn.Sequential:
        """Features (N, 512, H / 8, W / 8) to (N, FEATURES, 1, 1)."""
        return nn.Sequential(
            self._make_layer(256, 6, stride=2),
            self._make_layer(512, 3, stride=2),
            nn.AdaptiveAvgPool2d((1, 1)),
        )


def initialise(module: nn.Module) -> None:
    """Initialise all convolutions by Kaiming's rule. The published code does so in the first shard only (S4.9)."""
    for m in module.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")


def mlp_half(half: int, *, inputs: int, width: int, outputs: int, depth: int) -> nn.Sequential:
    """Build ``depth`` linear layers with ReLUs: half 1 takes images and ends with a ReLU, half 2 ends with scores."""
    inputs = inputs if half == 1 else width
    layers: list[nn.Module] = [nn.Flatten()] if half == 1 else []
    for place in range(depth):
        last = half == 2 and place == depth - 1
        layers += [nn.Linear(inputs, outputs if last else width), *([] if last else [nn.ReLU()])]
        inputs = width
    return nn.Sequential(*layers)
