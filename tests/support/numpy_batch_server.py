"""The batch-updating parameter server in NumPy, from the formulas, for the mlp and the convnet.

Each round: G = mean over trainers of their gradients, V ← momentum V + G (G in the first round), W ← W - lr V; batch
norm's running statistics are the mean of the trainers', who all start from the last mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from reference.batch_parameter_server import Case
from reference.trace import Trace
from tests.support.numpy_draws import Array, Draws, Notes

Named = dict[str, Array]
# From parameters, buffers, images and labels to the loss, the gradients, and the buffers after it.
Model = Callable[[Named, Named, Array, Array], tuple[Array, Named, Named]]


def squared_error(scores: Array, labels: Array) -> tuple[Array, Array]:
    """mean (S - L)², and its derivative by S."""
    rest = scores - labels
    return np.mean(rest**2), 2 * rest / rest.size


def mlp(w: Named, buffers: Named, images: Array, labels: Array) -> tuple[Array, Named, Named]:
    """Linear, ReLU, linear."""
    x = images.reshape(len(images), -1)
    hidden = np.maximum(x @ w["1.weight"].T + w["1.bias"], 0)
    loss, slope = squared_error(hidden @ w["3.weight"].T + w["3.bias"], labels)
    below = (slope @ w["3.weight"]) * (hidden > 0)
    gradients = {"1.weight": below.T @ x, "1.bias": below.sum(0), "3.weight": slope.T @ hidden, "3.bias": slope.sum(0)}
    return loss, gradients, buffers


def shifted(x: Array) -> Iterator[tuple[int, int, Array]]:
    """The nine neighbours of each pixel: (row, column) in a 3 × 3 kernel, and the image so shifted, 0 outside."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    for i in range(3):
        for j in range(3):
            yield i, j, padded[:, :, i : i + x.shape[2], j : j + x.shape[3]]


def convnet(w: Named, buffers: Named, images: Array, labels: Array) -> tuple[Array, Named, Named]:
    """3 × 3 convolution, batch norm, ReLU, mean over each quarter, linear. Both sides of an image are even."""
    near = list(shifted(images))
    x = sum(np.einsum("nchw,kc->nkhw", part, w["0.weight"][:, :, i, j]) for i, j, part in near)
    axes, channel = (0, 2, 3), (slice(None), None, None)
    mean, var, count = x.mean(axes), x.var(axes), x.size // x.shape[1]
    scale = 1 / np.sqrt(var + np.asarray(1e-5, x.dtype))
    normal = (x - mean[channel]) * scale[channel]
    y = normal * w["1.weight"][channel] + w["1.bias"][channel]
    n, k, width, height = x.shape
    quarters = (n, k, 2, width // 2, 2, height // 2)
    pooled = np.maximum(y, 0).reshape(quarters).mean((3, 5)).reshape(n, -1)
    loss, slope = squared_error(pooled @ w["5.weight"].T + w["5.bias"], labels)
    spread = (slope @ w["5.weight"]).reshape(n, k, 2, 1, 2, 1) / np.asarray(width * height // 4, x.dtype)
    dy = np.broadcast_to(spread, quarters).reshape(x.shape) * (y > 0)
    dw, db = (dy * normal).sum(axes), dy.sum(axes)
    dx = (w["1.weight"] * scale)[channel] * (dy - (db / count)[channel] - normal * (dw / count)[channel])
    kernel = np.empty_like(w["0.weight"])
    for i, j, part in near:
        kernel[:, :, i, j] = np.einsum("nkhw,nchw->kc", dx, part)
    gradients = {"0.weight": kernel, "1.weight": dw, "1.bias": db}
    gradients |= {"5.weight": slope.T @ pooled, "5.bias": slope.sum(0)}
    tenth = np.asarray(0.1, x.dtype)
    after = {
        "1.running_mean": (1 - tenth) * buffers["1.running_mean"] + tenth * mean,
        "1.running_var": (1 - tenth) * buffers["1.running_var"] + tenth * var * (count / (count - 1)),
        "1.num_batches_tracked": buffers["1.num_batches_tracked"] + 1,
    }
    return loss, gradients, {name: value.astype(buffers[name].dtype) for name, value in after.items()}


def first_buffers(case: Case) -> Named:
    if case.model == "mlp":
        return {}
    zeros, ones = np.zeros(8, case.dtype), np.ones(8, case.dtype)
    return {"1.running_mean": zeros, "1.running_var": ones, "1.num_batches_tracked": np.array(0, np.int64)}


def batches(case: Case, name: str) -> Iterator[tuple[Array, Array]]:
    """Yield each round's images, and one-hot labels, which are the same in every round."""
    draws = Draws(case.seed, name)
    labels = np.eye(case.num_classes, dtype=case.dtype)[draws.integers(case.num_classes, case.batch_size, 1)[:, 0]]
    for _ in range(case.steps):
        yield draws.normal(case.batch_size, 3, case.image_w, case.image_h).astype(case.dtype), labels


def mean_of(arrays: list[Array]) -> Array:
    """Take the mean of floats. For integers, which are the same for all, take the first."""
    return np.mean(arrays, axis=0, dtype=arrays[0].dtype) if arrays[0].dtype.kind == "f" else arrays[0]


def train(case: Case, start: Named, *, momentum: float | None = None, names: list[str] | None = None) -> Trace:
    """Train from the parameters ``start``. Tests give a wrong momentum, or wrong names, whose batches are drawn."""
    model: Model = mlp if case.model == "mlp" else convnet
    trainers = [f"trainer{index}" for index in range(1, case.trainers + 1)]
    weights, buffers, velocity, notes = dict(start), first_buffers(case), Named(), Notes()
    keep = np.asarray(case.momentum if momentum is None else momentum, case.dtype)
    notes.put("initial", weights)
    for step, each in enumerate(zip(*(batches(case, name) for name in names or trainers), strict=True)):
        losses, reports, states = zip(*(model(weights, buffers, *batch) for batch in each), strict=True)
        gradients = {name: mean_of([report[name] for report in reports]) for name in weights}
        buffers = {name: mean_of([state[name] for state in states]) for name in buffers}
        velocity = {name: keep * velocity[name] + g if velocity else g for name, g in gradients.items()}
        weights = {name: w - np.asarray(case.lr, case.dtype) * velocity[name] for name, w in weights.items()}
        notes.put(f"{step:04d}/loss", dict(zip(trainers, losses, strict=True)))
        notes.put(f"{step:04d}/gradient", gradients)
        notes.put(f"{step:04d}/parameter", weights)
        notes.put(f"{step:04d}/buffer", buffers)
    return notes.trace(case)
