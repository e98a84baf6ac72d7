"""The layers of two halves of a model: ResNet50 as torchvision builds it, and an mlp for exact cases."""

from __future__ import annotations

from torch import nn

from reference.training.vision import Bottleneck

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
