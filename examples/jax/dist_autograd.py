"""``dist_autograd``: p1 and p2 with the loss (c + 1) Σ (p1 + p2)² in each pass c."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from training import Tree, entries, initial, sgd


@jax.jit
@jax.value_and_grad
def computed(p: Tree, context: int) -> jax.Array:
    return (context + 1) * jnp.square(p["worker1"] + p["worker2"]).sum()


def train(case: dict[str, Any], given: Tree) -> Tree:
    """All passes compute at the same parameters; then each pass's gradients are applied, one pass after the other."""
    p, trace = initial(given), {}
    for step in range(case["steps"]):
        for context, (loss, gradients) in enumerate([computed(p, context) for context in range(case["contexts"])]):
            p = sgd(p, gradients, case["lr"])
            trace |= entries(step, loss={f"context{context}": loss})
            trace |= entries(step, **{f"gradient/context{context}": gradients})
        trace |= entries(step, parameter=p)
    return trace
