"""``parameter_server``: workers pull and push in the order that the case gives."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import Any

import jax
import jax.numpy as jnp
from training import Tree, entries, initial, linear, sgd

PULL = 0


def train(case: dict[str, Any], given: Tree) -> Tree:
    @jax.jit
    @jax.value_and_grad
    def computed(p: Tree, data: jax.Array, target: jax.Array) -> jax.Array:
        output = linear(p, "", data)
        return (output * target).sum() if case["arithmetic"] == "exact" else jnp.square(output - target).mean()

    p, trace = initial(given), {}
    # With staleness 1 a worker's gradients are those at the pull before its last one.
    pulled: dict[int, deque[Tree]] = defaultdict(lambda: deque(maxlen=case["staleness"] + 1))
    pushed: Counter[int] = Counter()
    for kind, worker in given["order/events"].tolist():
        if kind == PULL:
            pulled[worker].append(p)
            continue
        name = f"worker{worker + 1}"
        place = f"data/{name}/{pushed[worker]:04d}"
        loss, gradients = computed(pulled[worker][0], given[f"{place}/data"], given[f"{place}/target"])
        p = sgd(p, gradients, case["lr"])
        trace |= entries(pushed.total(), loss={name: loss}, gradient=gradients, parameter=p)
        pushed[worker] += 1
    return trace
