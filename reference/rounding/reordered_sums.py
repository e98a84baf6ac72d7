"""Compute torch's summing operators in another order: permute and split the summed index of their operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from reference.rounding import reordered_batch_norm
from reference.rounding.sum_orders import Orders, Tensor, added_in_turn, back, sum_over, total


def _mm(by: Orders, func: Any, a: Tensor, b: Tensor) -> Tensor:
    if by.in_turn(a.shape[1], a.numel() * b.shape[1], a):
        return added_in_turn(_products(by, a, b))
    return total([func(a[:, each], b[each]) for each in by.split(a.shape[1])])


def _products(by: Orders, a: Tensor, b: Tensor) -> Tensor:
    """The terms of a matrix product, the summed index first, permuted."""
    order = by.order(a.shape[1])
    return a.t()[order, :, None] * b[order, None, :]


def _addmm(by: Orders, func: Any, bias: Tensor, a: Tensor, b: Tensor, **factors: Any) -> Tensor:
    """A matrix product plus a bias, which is added first or last."""
    if factors:  # factors of the bias or of the product
        order = by.order(a.shape[1])
        return func(bias, a[:, order], b[order], **factors)  # type: ignore[no-any-return]
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
        return sum_over(by, x, dims, keepdim, **kwargs)
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
    "native_batch_norm.default": reordered_batch_norm.forward,
    "native_batch_norm_backward.default": reordered_batch_norm.backward,
    "_adaptive_avg_pool2d.default": _mirrored,
    "_adaptive_avg_pool2d_backward.default": _mirrored,
    "max_pool2d_with_indices_backward.default": _max_pool_backward,
    "_embedding_bag.default": _embedding_bag,
    "_embedding_bag_backward.default": _embedding_bag_backward,
    "embedding_dense_backward.default": _embedding_backward,
    "scatter_add.default": _scatter_add,
    "scatter_add_.default": _scatter_add,
}
