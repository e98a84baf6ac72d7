"""What both agents share: the policy, its choice of an action, discounting and Adam."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from training import Tree, dropped, linear

Episode = dict[str, Any]


def recorded(given: Tree, observer: str, episode: int) -> Episode:
    """What an observer's episode is made of; None stands for what the case does not have."""
    names = ("data/states", "data/rewards", "data/ends", "draws/uniforms", "draws/dropout")
    parts = [name.split("/") for name in names]
    return {name: given.get(f"{kind}/{observer}/{episode:04d}/{name}") for kind, name in parts}


def policy(p: Tree, episode: Episode) -> tuple[jax.Array, jax.Array]:
    """The actions, (…, steps), and their log-probabilities."""
    hidden = jax.nn.relu(dropped(linear(p, "affine1.", episode["states"]), episode["dropout"]))
    logs = jax.nn.log_softmax(linear(p, "affine2.", hidden))
    # The first action whose cumulated probability exceeds the given number; the last one if none does.
    above = jnp.exp(logs).astype(jnp.float64).cumsum(-1) > episode["uniforms"][..., None]
    actions = above.at[..., -1].set(True).argmax(-1)
    return actions, jnp.take_along_axis(logs, actions[..., None], -1)[..., 0]


def discounted(rewards: jax.Array, gamma: float, ends: jax.Array | None = None) -> jax.Array:
    """For each step its reward plus the later ones, discounted; none after the end of a start."""

    def back(following: jax.Array, at: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        reward, end = at
        following = reward + gamma * jnp.where(end, 0, following)
        return following, following

    ends = jnp.zeros_like(rewards) if ends is None else ends
    return lax.scan(back, jnp.zeros((), rewards.dtype), (rewards, ends), reverse=True)[1]


class Adam:
    """Adam with the usual numbers."""

    def __init__(self, p: Tree, lr: float, first: float = 0.9, second: float = 0.999, eps: float = 1e-8) -> None:
        self.lr, self.first, self.second, self.eps = lr, first, second, eps
        self.steps = 0
        self.mean = self.square = jax.tree.map(jnp.zeros_like, p)

    def step(self, p: Tree, gradients: Tree) -> Tree:
        self.steps += 1
        self.mean = jax.tree.map(lambda m, g: self.first * m + (1 - self.first) * g, self.mean, gradients)
        self.square = jax.tree.map(lambda v, g: self.second * v + (1 - self.second) * g * g, self.square, gradients)
        size, scale = self.lr / (1 - self.first**self.steps), (1 - self.second**self.steps) ** 0.5
        return jax.tree.map(lambda p, m, v: p - size * m / (jnp.sqrt(v) / scale + self.eps), p, self.mean, self.square)
