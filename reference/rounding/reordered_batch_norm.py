"""Compute batch norm in another order: with permuted images and places, or by its formulas with plain sums.

torch adds up the statistics of float32 in float64. Other implementations do not, so the formulas add in float32.
"""

from __future__ import annotations

from typing import Any

import torch

from reference.rounding.sum_orders import Orders, Tensor, back, sum_over


def forward(by: Orders, func: Any, x: Tensor, *args: Any) -> Any:
    if by.coin() and args[4] and all(isinstance(each, Tensor) for each in args[:4]):
        return _formula(by, x, *args)
    images, places = by.order(x.shape[0]), by.order(x[0, 0].numel())
    out, *saved = func(_shuffled(x, images, places), *args)
    return (_restored(out, images, places, x), *saved)


def backward(by: Orders, func: Any, grad: Tensor, x: Tensor, *args: Any) -> Any:
    weight, _, _, mean, scale, training, _, wanted = args
    if by.coin() and training and isinstance(weight, Tensor) and all(wanted):
        return _formula_backward(by, grad, x, weight, mean, scale)
    images, places = by.order(x.shape[0]), by.order(x[0, 0].numel())
    of_x, *others = func(*(_shuffled(each, images, places) for each in (grad, x)), *args)
    return (None if of_x is None else _restored(of_x, images, places, x), *others)


def _shuffled(x: Tensor, images: Tensor, places: Tensor) -> Tensor:
    return x.flatten(2)[images][:, :, places].contiguous() if x.dim() > 2 else x[images]


def _restored(x: Tensor, images: Tensor, places: Tensor, like: Tensor) -> Tensor:
    return _shuffled(x, back(images), back(places)).reshape(like.shape)


def _axes(x: Tensor) -> list[int]:
    """All axes except the channels'."""
    return [axis for axis in range(x.dim()) if axis != 1]


def _each(values: Tensor, x: Tensor) -> Tensor:
    """Shape one value per channel so that it combines with ``x``."""
    return values.reshape(1, -1, *[1] * (x.dim() - 2))


def _formula(by: Orders, x: Tensor, *args: Any) -> tuple[Tensor, Tensor, Tensor]:
    weight, bias, running_mean, running_var, _, momentum, eps = args
    count = x.numel() // x.shape[1]
    mean = sum_over(by, x, _axes(x)) / count
    rest = x - _each(mean, x)
    var = sum_over(by, rest * rest, _axes(x)) / count
    scale = torch.rsqrt(var + eps)
    running_mean.mul_(1 - momentum).add_(momentum * mean)
    running_var.mul_(1 - momentum).add_(momentum * (var * count / (count - 1)))
    return rest * _each(scale, x) * _each(weight, x) + _each(bias, x), mean, scale


def _formula_backward(
    by: Orders, grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    count = x.numel() // x.shape[1]
    normal = (x - _each(mean, x)) * _each(scale, x)
    of_weight, of_bias = sum_over(by, grad * normal, _axes(x)), sum_over(by, grad, _axes(x))
    rest = grad - _each(of_bias / count, x) - normal * _each(of_weight / count, x)
    return rest * _each(weight * scale, x), of_weight, of_bias
