"""Compute torch's summing operators in another order: permute and split the summed index of their operands."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from reference.rounding.reordering import Reordered as Orders

Tensor = torch.Tensor


def total(parts: list[Tensor]) -> Tensor:
    return functools.reduce(torch.add, parts)


def added_in_turn(terms: Tensor) -> Tensor:
    """Sum over the first axis one term after the other, as a plain loop does.

    torch adds many terms at once, which rounds less: a correct loop over thousands of terms rounds several times as
    much. Its `cumsum` adds bfloat16 in float32, and NumPy has no bfloat16.
    """
    if terms.dtype == torch.bfloat16:
        return total([*terms])
    with np.errstate(all="ignore"):  # a sum that overflows is infinite, as in torch
        return torch.from_numpy(np.add.accumulate(terms.numpy(), axis=0)[-1:].copy())[0]


def back(order: Tensor) -> Tensor:
    """Invert a permutation."""
    return torch.argsort(order)


def sum_over(by: Orders, x: Tensor, axes: list[int], keepdim: bool = False, **kwargs: Any) -> Tensor:
    """Sum over these axes: each is permuted, and the longest is split into pieces."""
    if not axes:
        return x.sum(**kwargs)
    for axis in axes:
        x = x.index_select(axis, by.order(x.shape[axis]))
    longest = max(axes, key=lambda axis: x.shape[axis])
    parts = [x.index_select(longest, each) for each in by.split(x.shape[longest])]
    return total([part.sum(axes, keepdim, **kwargs) for part in parts])


_ROUNDED = """
add.Tensor addcdiv.default addcmul.default div.Scalar div.Tensor lerp.Scalar log.default mse_loss_backward.default
mul.Scalar mul.Tensor nll_loss_backward.default pow.Tensor_Scalar sigmoid.default sigmoid_backward.default sqrt.default
sub.Tensor tanh.default tanh_backward.default _fused_sgd.default
"""

# Operators that round every element by itself, without the suffix of those that do so in place.
ROUNDED = frozenset(_ROUNDED.split())


def batch_norm_forward(by: Orders, func: Any, x: Tensor, *args: Any) -> Any:
    if by.coin() and args[4] and all(isinstance(each, Tensor) for each in args[:4]):
        return _formula(by, x, *args)
    images, places = by.order(x.shape[0]), by.order(x[0, 0].numel())
    out, *saved = func(_shuffled(x, images, places), *args)
    return (_restored(out, images, places, x), *saved)


def batch_norm_backward(by: Orders, func: Any, grad: Tensor, x: Tensor, *args: Any) -> Any:
    weight, _, _, mean, scale, training, _, output_mask = args
    if by.coin() and training and isinstance(weight, Tensor) and all(output_mask):
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


def _mm(by: Orders, func: Any, a: Tensor, b: Tensor) -> Tensor:
    if by.in_turn(a.shape[1], a.numel() * b.shape[1], a):
        return added_in_turn(_products(by, a, b))
    return total([func(a[:, each], b[each]) for each in by.split(a.shape[1])])


def _products(by: Orders, a: Tensor, b: Tensor) -> Tensor:
    """The terms of a matrix product, the summed index first, permuted."""
    order = by.order(a.shape[1])
    return a.t()[order, :, None] * b[order, None, :]


def _addmm(by: Orders, func: Any, bias: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """A matrix product plus a bias, which is added first or last."""
    if by.in_turn(a.shape[1], a.numel() * b.shape[1], a):
        product = _products(by, a, b)
        first = bias.expand_as(product[:1])
        return added_in_turn(torch.cat([first, product] if by.coin() else [product, first]))
    first, *others = by.split(a.shape[1])
    rest = [torch.mm(a[:, each], b[each]) for each in others]
    if by.coin():
        return total([func(bias, a[:, first], b[first]), *rest])
    return total([torch.mm(a[:, first], b[first]), *rest]) + bias


def _sum(by: Orders, func: Any, x: Tensor, **kwargs: Any) -> Tensor:
    flat = x.reshape(-1)
    if not kwargs and by.in_turn(flat.numel(), flat.numel(), flat):
        return added_in_turn(flat[by.order(flat.numel())])
    return total([func(flat[each], **kwargs) for each in by.split(flat.numel())])


def _sum_dims(by: Orders, func: Any, x: Tensor, dims: Any = None, keepdim: bool = False, **kwargs: Any) -> Tensor:
    axes = [dim % x.dim() for dim in dims or range(x.dim())]
    kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    count = x.numel() // max(1, math.prod(kept))
    if kwargs or not axes or not by.in_turn(count, x.numel(), x):
        return sum_over(by, x, axes, keepdim, **kwargs)
    terms = x.movedim(axes, [*range(len(axes))]).flatten(0, len(axes) - 1)[by.order(count)]
    result = added_in_turn(terms)
    return result.reshape(kept) if keepdim else result


def _mean(by: Orders, func: Any, x: Tensor, **kwargs: Any) -> Tensor:
    return _sum(by, torch.ops.aten.sum.default, x, **kwargs) / x.numel()


def _mean_dims(by: Orders, func: Any, x: Tensor, dims: Any = None, keepdim: bool = False, **kwargs: Any) -> Tensor:
    sums = _sum_dims(by, func, x, dims, keepdim, **kwargs)
    return sums / (x.numel() // max(1, sums.numel()))


def _mse_loss(by: Orders, func: Any, a: Tensor, b: Tensor, reduction: int = 1) -> Tensor:
    if reduction == 0:
        return func(a, b, reduction)  # type: ignore[no-any-return]
    squares = (a - b) * (a - b)
    return (_mean if reduction == 1 else _sum)(by, torch.ops.aten.sum.default, squares)


def _nll_loss(by: Orders, func: Any, x: Tensor, target: Tensor, *args: Any) -> Any:
    if target.dim() == 0:
        return func(x, target, *args)
    order = by.order(target.shape[0])
    result = func(x[order], target[order], *args)
    return (result[0][back(order)], result[1]) if result[0].dim() else result


def _along(by: Orders, func: Any, x: Tensor, dim: int, *args: Any) -> Tensor:
    """A softmax with permuted classes."""
    order = by.order(x.shape[dim])
    return func(x.index_select(dim, order), dim, *args).index_select(dim, back(order))  # type: ignore[no-any-return]


def _along_backward(by: Orders, func: Any, grad: Tensor, out: Tensor, dim: int, *args: Any) -> Tensor:
    order = by.order(out.shape[dim])
    result = func(grad.index_select(dim, order), out.index_select(dim, order), dim, *args)
    return result.index_select(dim, back(order))  # type: ignore[no-any-return]


def _convolution(by: Orders, func: Any, x: Tensor, weight: Tensor, bias: Any, *args: Any) -> Tensor:
    """A convolution with permuted input channels, if all channels are summed together."""
    if args[-1] != 1 or args[3]:
        return func(x, weight, bias, *args)  # type: ignore[no-any-return]
    order = by.order(weight.shape[1])
    return func(x[:, order], weight[:, order], bias, *args)  # type: ignore[no-any-return]


def _convolution_backward(by: Orders, func: Any, grad: Tensor, x: Tensor, weight: Tensor, *args: Any) -> Any:
    """A convolution's gradients with permuted images and output channels."""
    images, channels = by.order(x.shape[0]), by.order(weight.shape[0])
    if args[-2] != 1 or args[4]:
        channels = torch.arange(weight.shape[0])
    of_x, of_weight, of_bias = func(grad[images][:, channels], x[images], weight[channels], *args)
    return (
        None if of_x is None else of_x[back(images)].contiguous(),
        None if of_weight is None else of_weight[back(channels)].contiguous(),
        None if of_bias is None else of_bias[back(channels)],
    )


def _mirrored(by: Orders, func: Any, x: Tensor, *args: Any) -> Tensor:
    """A pooling of images that are mirrored in either direction; windows of every size are symmetric to that."""
    axes = [axis for axis in (-1, -2) if by.coin()]
    others = [each.flip(axes) if isinstance(each, Tensor) else each for each in args]
    return func(x.flip(axes), *others).flip(axes)  # type: ignore[no-any-return]


def _max_pool_backward(by: Orders, func: Any, grad: Tensor, x: Tensor, *args: Any) -> Tensor:
    """A pooling's gradient with permuted places in each image, because windows overlap."""
    order = by.order(grad[0, 0].numel())
    places, values = (each.flatten(2)[:, :, order] for each in (args[-1], grad))
    return torch.zeros_like(x).flatten(2).scatter_add_(2, places, values).reshape(x.shape)


def _bags(places: Tensor, offsets: Tensor) -> Tensor:
    """The bag of each of these places."""
    return torch.bucketize(places, offsets, right=True) - 1


def _embedding_bag(by: Orders, func: Any, weight: Tensor, indices: Tensor, offsets: Tensor, *args: Any) -> Any:
    """A sum of bags with permuted rows in each bag."""
    _, *others = func(weight, indices, offsets, *args)
    shuffled = by.order(len(indices))
    order = shuffled[torch.argsort(_bags(shuffled, offsets), stable=True)]
    return (func(weight, indices[order], offsets, *args)[0], *others)


def _embedding_bag_backward(by: Orders, func: Any, grad: Tensor, indices: Tensor, *args: Any) -> Tensor:
    offsets, _, *others = args
    order = by.order(len(indices))
    return func(grad, indices[order], offsets, _bags(order, offsets), *others)  # type: ignore[no-any-return]


def _embedding_backward(by: Orders, func: Any, grad: Tensor, indices: Tensor, *args: Any) -> Tensor:
    order = by.order(indices.numel())
    rows = grad.reshape(-1, grad.shape[-1])
    return func(rows[order], indices.reshape(-1)[order], *args)  # type: ignore[no-any-return]


def _scatter_add(by: Orders, func: Any, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    order = by.order(index.shape[dim])
    return func(x, dim, index.index_select(dim, order), source.index_select(dim, order))  # type: ignore[no-any-return]


SUMS: Mapping[str, Callable[..., Any]] = {
    "mm.default": _mm,
    "addmm.default": _addmm,
    "sum.default": _sum,
    "sum.dim_IntList": _sum_dims,
    "mean.default": _mean,
    "mean.dim": _mean_dims,
    "mse_loss.default": _mse_loss,
    "nll_loss_forward.default": _nll_loss,
    "_softmax.default": _along,
    "_log_softmax.default": _along,
    "_softmax_backward_data.default": _along_backward,
    "_log_softmax_backward_data.default": _along_backward,
    "convolution.default": _convolution,
    "convolution_backward.default": _convolution_backward,
    "native_batch_norm.default": batch_norm_forward,
    "native_batch_norm_backward.default": batch_norm_backward,
    "_adaptive_avg_pool2d.default": _mirrored,
    "_adaptive_avg_pool2d_backward.default": _mirrored,
    "max_pool2d_with_indices_backward.default": _max_pool_backward,
    "_embedding_bag.default": _embedding_bag,
    "_embedding_bag_backward.default": _embedding_bag_backward,
    "embedding_dense_backward.default": _embedding_backward,
    "scatter_add.default": _scatter_add,
    "scatter_add_.default": _scatter_add,
}
