"""``pipeline``: the mlp. Each micro-batch goes forward by itself, and back through its own pullback."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from training import Tree, added, entries, initial, linear, loss_of, sgd


def train(case: dict[str, Any], given: Tree) -> Tree:
    # Flattening is module 0 of shard1, and the other numbers that are missing are ReLUs.
    layers = [f"shard1.seq.{2 * n + 1}." for n in range(case["depth"])]
    layers += [f"shard2.seq.{2 * n}." for n in range(case["depth"])]

    def mlp(x: jax.Array, p: Tree) -> jax.Array:
        x = linear(p, layers[0], x.reshape(len(x), -1))
        for layer in layers[1:]:
            x = linear(p, layer, jax.nn.relu(x))
        return x

    @jax.jit
    def updated(p: Tree, inputs: jax.Array, labels: jax.Array) -> tuple[jax.Array, Tree, Tree]:
        parts = jnp.array_split(inputs, case["num_split"])
        scores, pullbacks = zip(*[jax.vjp(partial(mlp, part), p) for part in parts], strict=True)
        loss, g = jax.value_and_grad(partial(loss_of, case, labels=labels))(jnp.concatenate(scores))
        shares = jnp.array_split(g, case["num_split"])
        gradients = added([pullback(share)[0] for pullback, share in zip(pullbacks, shares, strict=True)])
        return loss, gradients, sgd(p, gradients, case["lr"])

    p, trace = initial(given), {}
    for step in range(case["steps"]):
        loss, gradients, p = updated(p, *(given[f"data/master/{step:04d}/{name}"] for name in ("inputs", "labels")))
        trace |= entries(step, loss={"master": loss}, gradient=gradients, parameter=p)
    return trace
