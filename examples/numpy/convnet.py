"""The convnet in NumPy: convolution 3 × 3, batch norm, ReLU, mean pooling to 2 × 2, linear."""

from __future__ import annotations

from typing import Any

import numpy as np
from layers import linear, linear_backward, relu_backward

Array = np.ndarray[Any, Any]
EPS, KEPT = 1e-5, 0.1


def convnet(p: dict[str, Array], x: Array) -> tuple[Array, Any, dict[str, Array]]:
    """Scores, a function from their gradient to the parameters', and the buffers of batch norm."""
    columns, inner = convolution(x, p["0.weight"])
    normal, unit, deviation, buffers = batch_norm(p, inner)
    active = np.maximum(normal, 0)
    cells = windows(active.shape[2]), windows(active.shape[3])
    pooled = np.stack([[active[:, :, a:b, c:d].mean((2, 3)) for c, d in cells[1]] for a, b in cells[0]])
    rows = pooled.transpose(2, 3, 0, 1).reshape(len(x), -1)

    def backward(g: Array) -> dict[str, Array]:
        g_rows, weight, bias = linear_backward(rows, p["5.weight"], g)
        g_pooled = g_rows.reshape(len(x), -1, 2, 2)
        g_active = np.zeros_like(active)
        for i, (a, b) in enumerate(cells[0]):
            for j, (c, d) in enumerate(cells[1]):
                share = g_pooled[:, :, i, j] / active.dtype.type((b - a) * (d - c))
                g_active[:, :, a:b, c:d] += share[:, :, None, None]
        g_normal = relu_backward(normal, g_active)
        over = (0, 2, 3)
        scale, shift = (g_normal * unit).sum(over), g_normal.sum(over)
        count = normal.dtype.type(normal.size // normal.shape[1])
        g_unit = g_normal * p["1.weight"][:, None, None]
        means = g_unit.mean(over, keepdims=True), (g_unit * unit).sum(over, keepdims=True) / count
        g_inner = (g_unit - means[0] - unit * means[1]) / deviation
        kernel = np.einsum("nohw,nkhw->ok", g_inner, columns).reshape(p["0.weight"].shape)
        return {"0.weight": kernel, "1.weight": scale, "1.bias": shift, "5.weight": weight, "5.bias": bias}

    return linear(rows, p["5.weight"], p["5.bias"]), backward, buffers


def convolution(x: Array, kernel: Array) -> tuple[Array, Array]:
    """The nine shifted images as columns (N, 27, W, H), and the result; outside the image are zeros."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    w, h = x.shape[2:]
    columns = np.stack([padded[:, :, i : i + w, j : j + h] for i in range(3) for j in range(3)], axis=2)
    flat = columns.reshape(len(x), -1, w, h)
    return flat, np.einsum("ok,nkwh->nowh", kernel.reshape(len(kernel), -1), flat)


def batch_norm(p: dict[str, Array], x: Array) -> tuple[Array, Array, Array, dict[str, Array]]:
    """Normalise each channel over batch and image; the running variance has one less in its denominator."""
    over = (0, 2, 3)
    mean, variance = x.mean(over), x.var(over)
    deviation = np.sqrt(variance + x.dtype.type(EPS))[:, None, None]
    unit = (x - mean[:, None, None]) / deviation
    count = x.size // x.shape[1]
    kept = x.dtype.type(KEPT)
    buffers = {
        "1.running_mean": (1 - kept) * p["1.running_mean"] + kept * mean,
        "1.running_var": (1 - kept) * p["1.running_var"] + kept * variance * x.dtype.type(count / (count - 1)),
        "1.num_batches_tracked": p["1.num_batches_tracked"] + 1,
    }
    return unit * p["1.weight"][:, None, None] + p["1.bias"][:, None, None], unit, deviation, buffers


def windows(length: int) -> list[tuple[int, int]]:
    """The two halves over which pooling takes its means; they overlap where the length is odd."""
    return [(i * length // 2, -(-(i + 1) * length // 2)) for i in range(2)]
