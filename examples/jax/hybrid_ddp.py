"""``hybrid_ddp``: a table on the server, and dense layers that are equal on all trainers."""

from __future__ import annotations

from typing import Any

import jax
from training import Tree, cross_entropy, entries, initial, linear, mean, sgd, stacked


def train(case: dict[str, Any], given: Tree) -> Tree:
    names = [f"trainer{number}" for number in range(1, case["trainers"] + 1)]
    p, trace = {"ps": initial(given, "initial/ps/"), "dense": initial(given, "initial/trainer1/")}, {}

    def loss(p: dict[str, Tree], indices: jax.Array, target: jax.Array) -> jax.Array:
        bags = p["ps"]["weight"][indices].sum(1)
        scores = linear(p["dense"], "2.", jax.nn.relu(linear(p["dense"], "0.", bags)))
        if case["arithmetic"] == "exact":
            return (scores * (1 + jax.nn.one_hot(target, case["num_classes"], dtype=scores.dtype))).sum()
        return cross_entropy(scores, target)

    trainers = jax.jit(jax.vmap(jax.value_and_grad(loss), in_axes=(None, 0, 0)))

    def shown(tree: dict[str, Tree]) -> Tree:
        """By name, each trainer's replica of the dense layers by itself."""
        owners = {"ps": tree["ps"]} | dict.fromkeys(names, tree["dense"])
        return {f"{owner}/{name}": array for owner, part in owners.items() for name, array in part.items()}

    for step in range(case["steps"]):
        losses, gradients = trainers(p, *stacked(given, names, step, "indices", "target"))
        gradients = mean(gradients)
        p = sgd(p, gradients, case["lr"])
        losses = dict(zip(names, losses, strict=True))
        trace |= entries(step, loss=losses, gradient=shown(gradients), parameter=shown(p))
    return trace
