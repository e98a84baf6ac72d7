"""What the tutorials share: trees of arrays by name, SGD, layers and losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

Tree = dict[str, jax.Array]


def initial(given: Tree, place: str = "initial/") -> Tree:
    return {name.removeprefix(place): array for name, array in given.items() if name.startswith(place)}


def stacked(given: Tree, roles: Sequence[str], step: int, *names: str) -> list[jax.Array]:
    """The data of all roles at a step; the roles are the first axis, as ``jax.vmap`` wants."""
    return [jnp.stack([given[f"data/{role}/{step:04d}/{name}"] for role in roles]) for name in names]


def entries(step: int, **kinds: Any) -> Tree:
    """What a step adds to the trace: of each kind (``loss``, ``gradient``, …) arrays by name."""
    return {f"{step:04d}/{kind}/{name}": array for kind, tree in kinds.items() for name, array in tree.items()}


def sgd(p: Tree, gradients: Tree, lr: float) -> Tree:
    return jax.tree.map(lambda p, g: p - lr * g, p, gradients)


def added(trees: Sequence[Tree]) -> Tree:
    return jax.tree.map(lambda *each: sum(each), *trees)


def mean(tree: Any) -> Any:
    """The mean over the roles, each array's first axis: added in their order, which ``jnp.mean`` does not promise."""
    return jax.tree.map(lambda array: (sum(array) / len(array)).astype(array.dtype), tree)


def linear(p: Tree, layer: str, x: jax.Array) -> jax.Array:
    return x @ p[f"{layer}weight"].T + p[f"{layer}bias"]


def dropped(x: jax.Array, factors: jax.Array | None) -> jax.Array:
    return x if factors is None else x * factors


def loss_of(case: dict[str, Any], scores: jax.Array, labels: jax.Array) -> jax.Array:
    """The mean square error; in exact arithmetic Σ score × (label + 1)."""
    return (scores * (labels + 1)).sum() if case["arithmetic"] == "exact" else jnp.square(scores - labels).mean()


def cross_entropy(scores: jax.Array, classes: jax.Array) -> jax.Array:
    """The mean of -log p(class). ``scores`` have one axis more than ``classes``."""
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), classes[..., None], -1).mean()
