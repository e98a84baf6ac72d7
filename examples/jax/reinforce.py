"""``reinforce`` on recorded episodes: states and rewards in; actions, loss and update out."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from agent import Adam, Episode, discounted, policy, recorded
from training import Tree, added, entries, initial


@jax.jit
@partial(jax.value_and_grad, has_aux=True)
def computed(p: Tree, episode: Episode, returns: jax.Array) -> Any:
    actions, log_probs = policy(p, episode)
    return -(log_probs * returns).sum(), (actions, log_probs)


def train(case: dict[str, Any], given: Tree) -> Tree:
    names = [f"observer{number}" for number in range(1, case["observers"] + 1)]
    p, trace, running = initial(given), {}, 0.0
    adam = Adam(p, case["lr"])
    for number in range(case["steps"]):
        episodes = [recorded(given, name, number) for name in names]
        returns = normalized([discounted(each["rewards"], case["gamma"]) for each in episodes], case["dtype"])
        found = [computed(p, *each) for each in zip(episodes, returns, strict=True)]
        gradients = added([each for _, each in found])
        p = adam.step(p, gradients)
        reward = min(each["rewards"].sum() for each in episodes)
        running = 0.05 * reward + 0.95 * running
        for name, ((_, (actions, log_probs)), _) in zip(names, found, strict=True):
            trace |= entries(number, actions={name: actions}, log_probs={name: log_probs})
        loss = sum(each for (each, _), _ in found)
        trace |= entries(number, loss={"policy": loss}, gradient=gradients, parameter=p)
        trace |= entries(number, reward={"episode": reward, "running": running})
    return trace


def normalized(returns: list[jax.Array], dtype: str) -> list[jax.Array]:
    """All observers' returns together: mean 0 and variance 1. The denominator has float32's epsilon in any dtype."""
    flat = jnp.concatenate(returns).astype(dtype)
    scaled = (flat - flat.mean()) / (flat.std() + 2**-23)
    return jnp.split(scaled, np.cumsum([len(each) for each in returns])[:-1])
