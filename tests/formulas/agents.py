"""The formulas of both tutorials with agents: the pole, the policy, the random draws, and returns.

Which generator draws what, in this order. Each is seeded with `seed_of` its name:

- ``policy``: torch's default one. The layers 1 and 2 of the policy, each its weight and then its bias, in float32.
- ``observer1/environment``: NumPy's ``default_rng``. A start that is thrown away (the one that sets the seed), then one
  for each start of this observer's environment, in the order of time.
- ``observer1``: torch's. At the start of each episode, however long it will be: ``n_steps`` uniforms of float64, one
  for each action; then, with dropout, ``n_steps`` × 128 uniforms of float32. A hidden unit is dropped where its
  uniform is less than ``dropout``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from tests.formulas.common import Tensors, default_draws, draws, seed_of

HIDDEN = 128


class Pole:
    """Barto's, Sutton's and Anderson's cart with a pole, in Euler steps of 0.02 s. Every step earns 1.

    A start ends when the cart is 2.4 m off, when the pole leans by 12°, or after 500 steps.
    """

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.reset()

    def reset(self) -> Any:
        self.state, self.age = self.random.uniform(-0.05, 0.05, 4), 0
        return self.state.astype(np.float32)

    def step(self, action: int) -> tuple[Any, float, bool]:
        gravity, pole, length, second = 9.8, 0.1, 0.5, 0.02  # the pole weighs 0.1 kg, the cart 1 kg; half a length
        x, speed, lean, spin = self.state
        total, force = 1.0 + pole, 10.0 if action == 1 else -10.0
        sine, cosine = np.sin(lean), np.cos(lean)
        push = (force + pole * length * (spin * spin) * sine) / total
        twist = (gravity * sine - cosine * push) / (length * (4.0 / 3.0 - pole * (cosine * cosine) / total))
        pull = push - pole * length * twist * cosine / total
        self.state = np.array([x + second * speed, speed + second * pull, lean + second * spin, spin + second * twist])
        self.age += 1
        over = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 12 * 2 * math.pi / 360 or self.age == 500
        return self.state.astype(np.float32), 1.0, bool(over)


class Other:
    """Any other environment, which is gymnasium's own."""

    def __init__(self, name: str, seed: int) -> None:
        self.env = gymnasium.make(name, disable_env_checker=True)
        self.env.reset(seed=seed)

    def reset(self) -> Any:
        return self.env.reset()[0]

    def step(self, action: int) -> tuple[Any, float, bool]:
        state, reward, fallen, too_long, _ = self.env.step(action)
        return state, float(reward), fallen or too_long


def environments(case: Any) -> list[Pole | Other]:
    """One environment per observer; observers are numbered from 1."""
    seeds = [seed_of(case.seed, f"observer{number}/environment") for number in range(1, case.observers + 1)]
    return [Pole(seed) if case.env == "CartPole-v1" else Other(case.env, seed) for seed in seeds]


def generators(case: Any) -> list[torch.Generator]:
    return [draws(case.seed, f"observer{number}") for number in range(1, case.observers + 1)]


def episode_draws(case: Any, own: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """One observer's uniforms (n_steps,), and the factors (n_steps, 128) of its hidden units."""
    uniforms = torch.rand(case.n_steps, generator=own, dtype=torch.float64)
    factors = torch.ones(case.n_steps, HIDDEN, dtype=getattr(torch, case.dtype))
    if case.dropout:
        dropped = torch.rand(case.n_steps, HIDDEN, generator=own) < case.dropout
        factors = torch.where(dropped, 0, factors / (1 - case.dropout))
    return uniforms, factors


def initial_parameters(case: Any) -> Tensors:
    """Two linear layers with 128 units between them, drawn in float32 whatever the dtype."""
    env: Any = gymnasium.make(case.env, disable_env_checker=True)
    with env:
        inputs, actions = env.observation_space.shape[0], env.action_space.n
    with default_draws(case.seed, "policy"):
        layers = nn.ModuleDict({"affine1": nn.Linear(inputs, HIDDEN), "affine2": nn.Linear(HIDDEN, int(actions))})
    return {name: p.detach().to(getattr(torch, case.dtype)).requires_grad_() for name, p in layers.named_parameters()}


def probabilities(p: Tensors, states: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """softmax(W2 relu(d * (W1 s + b1)) + b2), for each state (inputs,) with its factors d (128,)."""
    hidden = F.relu(F.linear(states, p["affine1.weight"], p["affine1.bias"]) * factors)
    return F.linear(hidden, p["affine2.weight"], p["affine2.bias"]).softmax(-1)


def chosen(probs: torch.Tensor, uniform: float) -> int:
    """The inverse of the distribution function, computed in float64, at ``uniform``."""
    cumulated = np.cumsum(probs.detach().double().numpy())
    return min(int((cumulated <= uniform).sum()), int(probs.nonzero().max()))


def returns(rewards: Sequence[float], gamma: float) -> list[float]:
    """The returns of one start of an environment: G(t) = r(t) + gamma G(t + 1), and nothing after its last step."""
    return list(accumulate(reversed(rewards), lambda later, reward: reward + gamma * later))[::-1]
