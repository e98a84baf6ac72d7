"""Layers in NumPy, forward and backward. A weight of a linear layer is (out, in), and its input has rows (N, in)."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def linear(x: Array, weight: Array, bias: Array) -> Array:
    return x @ weight.T + bias


def linear_backward(x: Array, weight: Array, g: Array) -> tuple[Array, Array, Array]:
    """Gradients of input, weight and bias, for the gradient ``g`` of the output."""
    return g @ weight, g.T @ x, g.sum(0)


def relu_backward(x: Array, g: Array) -> Array:
    """No gradient passes at 0."""
    return g * (x > 0)


def softmax(scores: Array) -> Array:
    """Along the last axis."""
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def cross_entropy(scores: Array, classes: Array) -> tuple[Array, Array]:
    """The mean over rows of -log p(class), and its gradient. ``scores`` are (N, classes), ``classes`` (N,)."""
    rows, p = np.arange(len(classes)), softmax(scores)
    shifted = scores - scores.max(-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    g = p.copy()
    g[rows, classes] -= 1
    return -logs[rows, classes].mean(), g / len(classes)


def loss_of(case: dict[str, Any], scores: Any, labels: Any) -> tuple[Any, Any]:
    """The mean square error over the whole batch; in exact arithmetic Σ score × (label + 1)."""
    if case["arithmetic"] == "exact":
        return (scores * (labels + 1)).sum(), labels + 1
    away = scores - labels
    return (away * away).mean(), 2 * away / away.dtype.type(away.size)
