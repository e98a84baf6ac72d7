"""What both agents share: the policy, its choice of an action, its gradients, and Adam."""

from __future__ import annotations

from typing import Any

import numpy as np
from layers import linear, linear_backward, relu_backward, softmax

Array = np.ndarray[Any, Any]


class Episode:
    """One observer's episode under one policy: all its states (steps, inputs) at once."""

    def __init__(self, p: dict[str, Array], states: Array, uniforms: Array, dropout: Array | None) -> None:
        self.p, self.states, self.mask = p, states, dropout
        inner = linear(states, p["affine1.weight"], p["affine1.bias"])
        self.inner = inner if dropout is None else inner * dropout
        self.hidden = np.maximum(self.inner, 0)
        self.probabilities = softmax(linear(self.hidden, p["affine2.weight"], p["affine2.bias"]))
        # The first action whose cumulated probability exceeds the given number.
        above = np.cumsum(self.probabilities.astype(np.float64), axis=1) > uniforms[:, None]
        self.actions = np.where(above.any(1), above.argmax(1), self.probabilities.shape[1] - 1)
        self.log_probs = np.log(self.probabilities[np.arange(len(states)), self.actions])

    def gradients(self, g: Array) -> dict[str, Array]:
        """The parameters' gradients, for the gradient ``g`` (steps,) of the log-probabilities."""
        one_hot = np.eye(self.probabilities.shape[1], dtype=self.probabilities.dtype)[self.actions]
        g_scores = g[:, None] * (one_hot - self.probabilities)
        g_hidden, weight, bias = linear_backward(self.hidden, self.p["affine2.weight"], g_scores)
        g_inner = relu_backward(self.inner, g_hidden)
        g_inner = g_inner if self.mask is None else g_inner * self.mask
        _, first, first_bias = linear_backward(self.states, self.p["affine1.weight"], g_inner)
        return {"affine1.weight": first, "affine1.bias": first_bias, "affine2.weight": weight, "affine2.bias": bias}


def begin(case: dict[str, Any], given: dict[str, Array]) -> tuple[dict[str, Array], list[str]]:
    """The initial parameters, and the observers in their order."""
    p = {name.removeprefix("initial/"): array for name, array in given.items() if name.startswith("initial/")}
    return p, [f"observer{number}" for number in range(1, case["observers"] + 1)]


def recorded(p: dict[str, Array], given: dict[str, Array], place: str) -> Episode:
    """The recorded episode of an observer; ``place`` is OBSERVER/EPISODE."""
    uniforms, mask = given[f"draws/{place}/uniforms"], given.get(f"draws/{place}/dropout")
    return Episode(p, given[f"data/{place}/states"], uniforms, mask)


class Adam:
    """Adam with the usual numbers: 0.9, 0.999, 1e-8."""

    def __init__(self, lr: float) -> None:
        self.lr, self.steps = lr, 0
        self.mean: dict[str, Array] = {}
        self.square: dict[str, Array] = {}

    def step(self, p: dict[str, Array], gradients: dict[str, Array]) -> dict[str, Array]:
        self.steps += 1
        found = {}
        for name, g in gradients.items():
            self.mean[name] = 0.9 * self.mean.get(name, 0 * g) + (1 - 0.9) * g
            self.square[name] = 0.999 * self.square.get(name, 0 * g) + (1 - 0.999) * g * g
            size = self.lr / (1 - 0.9**self.steps)
            below = np.sqrt(self.square[name]) / np.sqrt(1 - 0.999**self.steps) + 1e-8
            found[name] = (p[name] - size * self.mean[name] / below).astype(g.dtype)
        return found


def discounted(rewards: list[float], gamma: float) -> list[float]:
    """For each step its reward plus the later ones, discounted."""
    found, following = [0.0] * len(rewards), 0.0
    for step in range(len(rewards) - 1, -1, -1):
        found[step] = following = rewards[step] + gamma * following
    return found


def added(all_gradients: list[dict[str, Array]]) -> dict[str, Array]:
    total = all_gradients[0]
    for each in all_gradients[1:]:
        total = {name: total[name] + each[name] for name in total}
    return total
