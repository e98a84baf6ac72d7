"""``batch_reinforce`` on recorded episodes, which go on in a new start of the environment when one ends."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from agent import Adam, Episode, discounted, policy, recorded
from training import Tree, entries, initial


def train(case: dict[str, Any], given: Tree) -> Tree:
    names = [f"observer{number}" for number in range(1, case["observers"] + 1)]
    p, trace, running = initial(given), {}, 0.0
    adam = Adam(p, case["lr"])

    @partial(jax.value_and_grad, has_aux=True)
    def computed(p: Tree, episode: Episode, returns: jax.Array) -> Any:
        actions, log_probs = policy(p, episode)
        return -(log_probs * returns / len(names)).sum(), (actions, log_probs)

    @jax.jit
    def played(p: Tree, episodes: Episode) -> Any:
        """Loss, actions, log-probabilities and gradients: of all observers at once, or of each, and then added."""
        returns = jax.vmap(partial(discounted, gamma=case["gamma"]))(episodes["rewards"], ends=episodes["ends"])
        returns = returns.astype(case["dtype"])
        if case["batch"]:
            return computed(p, episodes, returns)
        (losses, taken), gradients = jax.vmap(computed, in_axes=(None, 0, 0))(p, episodes, returns)
        return (sum(losses), taken), jax.tree.map(sum, gradients)

    for number in range(case["steps"]):
        # The observers are the first axis.
        episodes = jax.tree.map(lambda *each: jnp.stack(each), *[recorded(given, name, number) for name in names])
        (loss, taken), gradients = played(p, episodes)
        p = adam.step(p, gradients)
        reward = (episodes["ends"].argmax(1) + 1).mean()  # the mean length of the first starts
        running = 0.5 * reward + 0.5 * running
        trace |= entries(number, steps={"actions": taken[0].T, "log_probs": taken[1].T})
        trace |= entries(number, loss={"policy": loss}, gradient=gradients, parameter=p)
        trace |= entries(number, reward={"episode": reward, "running": running})
    return trace
