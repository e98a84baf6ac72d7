"""``batch_parameter_server``: the models mlp and convnet, and one update from the mean of all trainers' gradients."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from training import Tree, entries, initial, linear, loss_of, mean, sgd, stacked

EPS, KEPT = 1e-5, 0.1


def train(case: dict[str, Any], given: Tree) -> Tree:
    p = initial(given)
    buffers = {name: p.pop(name) for name in list(p) if "running" in name or "tracked" in name}
    velocity, trace = jax.tree.map(jnp.zeros_like, p), {}
    names = [f"trainer{number}" for number in range(1, case["trainers"] + 1)]

    def loss(p: Tree, buffers: Tree, inputs: jax.Array, labels: jax.Array) -> tuple[jax.Array, Tree]:
        scores, seen = MODELS[case["model"]](p, buffers, inputs)
        return loss_of(case, scores, labels), seen

    trainers = jax.vmap(jax.value_and_grad(loss, has_aux=True), in_axes=(None, None, 0, 0))

    @jax.jit
    def updated(p: Tree, buffers: Tree, velocity: Tree, *batches: jax.Array) -> tuple[Any, ...]:
        (losses, seen), gradients = trainers(p, buffers, *batches)
        gradients = mean(gradients)
        velocity = jax.tree.map(lambda v, g: case["momentum"] * v + g, velocity, gradients)
        return losses, gradients, sgd(p, velocity, case["lr"]), mean(seen), velocity

    for step in range(case["steps"]):
        batches = stacked(given, names, step, "inputs", "labels")
        losses, gradients, p, buffers, velocity = updated(p, buffers, velocity, *batches)
        losses = dict(zip(names, losses, strict=True))
        trace |= entries(step, loss=losses, gradient=gradients, parameter=p, buffer=buffers)
    return trace


def mlp(p: Tree, buffers: Tree, x: jax.Array) -> tuple[jax.Array, Tree]:
    return linear(p, "3.", jax.nn.relu(linear(p, "1.", x.reshape(len(x), -1)))), buffers


def convnet(p: Tree, buffers: Tree, x: jax.Array) -> tuple[jax.Array, Tree]:
    normal, seen = batch_norm(p, buffers, lax.conv_general_dilated(x, p["0.weight"], (1, 1), "SAME"))
    return linear(p, "5.", pooled(jax.nn.relu(normal)).reshape(len(x), -1)), seen


def batch_norm(p: Tree, buffers: Tree, x: jax.Array) -> tuple[jax.Array, Tree]:
    """Normalise each channel over batch and image; the running variance has one less in its denominator."""
    over, count = (0, 2, 3), x.size // x.shape[1]
    mean, variance = x.mean(over), x.var(over)
    unit = (x - mean[:, None, None]) / jnp.sqrt(variance + EPS)[:, None, None]
    seen = {
        "1.running_mean": (1 - KEPT) * buffers["1.running_mean"] + KEPT * mean,
        "1.running_var": (1 - KEPT) * buffers["1.running_var"] + KEPT * variance * (count / (count - 1)),
        "1.num_batches_tracked": buffers["1.num_batches_tracked"] + 1,
    }
    return unit * p["1.weight"][:, None, None] + p["1.bias"][:, None, None], seen


def pooled(x: jax.Array) -> jax.Array:
    """The means of four cells, (N, channels, 4). The cells overlap where a length is odd."""
    rows, columns = ([slice(i * n // 2, -(-(i + 1) * n // 2)) for i in range(2)] for n in x.shape[2:])
    return jnp.stack([x[:, :, i, j].mean((2, 3)) for i in rows for j in columns], -1)


MODELS = {"mlp": mlp, "convnet": convnet}
