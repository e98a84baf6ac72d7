"""The trace of ``reinforce``, from its formula: an episode ends for each observer when its environment does.

Loss of an episode: - Σ log π(a | s) (G - mean) / (deviation + eps), over all steps of all observers. G is discounted
for each observer by itself; mean and deviation (over n) are those of all observers' G together, and eps is float32's.
The parameters follow Adam. The episode's reward is the smallest of the observers' sums, and the running one is 5 % of
it and 95 % of the last, from 0. agents.py says which generator draws what.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import torch

from tests.formulas.agents import (
    chosen,
    environments,
    episode_draws,
    generators,
    initial_parameters,
    probabilities,
    returns,
)
from tests.formulas.common import Tensors, copies, recorded


def trace(case: Any, given: Tensors) -> Tensors:
    """Compute every tensor of the trace of ``case`` from the case's plain numbers alone."""
    parameters, envs, owns = initial_parameters(case), environments(case), generators(case)
    adam = torch.optim.Adam(parameters.values(), lr=case.lr)
    found, running = copies(parameters, "initial"), 0.0
    for episode in range(case.steps):
        played = [play(case, parameters, *each) for each in zip(envs, owns, strict=True)]
        losses = [loss(*each) for each in zip(played, standardized(case, played), strict=True)]
        adam.zero_grad()
        for each in losses:
            each.backward()
        gradients = {name: p.grad for name, p in parameters.items() if p.grad is not None}
        adam.step()
        worst = min(sum(rewards) for _, rewards, _ in played)
        running = 0.05 * worst + 0.95 * running
        found |= copies(gradients, f"{episode:04d}/gradient") | copies(parameters, f"{episode:04d}/parameter")
        found[f"{episode:04d}/loss/policy"] = torch.stack([each.detach() for each in losses]).sum()
        found[f"{episode:04d}/reward/episode"] = torch.tensor(worst, dtype=torch.float64)
        found[f"{episode:04d}/reward/running"] = torch.tensor(running, dtype=torch.float64)
        for number, (actions, rewards, logs) in enumerate(played, start=1):
            found[f"{episode:04d}/actions/observer{number}"] = torch.tensor(actions)
            found[f"{episode:04d}/log_probs/observer{number}"] = torch.stack(logs).detach()
            found[f"{episode:04d}/rewards/observer{number}"] = torch.tensor(rewards, dtype=torch.float64)
    return recorded(case, found, case.steps - 1, "rewards", "log_probs")


Played = tuple[list[int], list[float], list[torch.Tensor]]


def play(case: Any, parameters: Tensors, env: Any, own: torch.Generator) -> Played:
    """One observer's actions, rewards and log-probabilities: one start of its environment, or ``n_steps`` steps."""
    uniforms, factors = episode_draws(case, own)
    actions, rewards, logs, state, over = list[int](), [], [], env.reset(), False
    while len(actions) < case.n_steps and not over:
        seen = torch.from_numpy(state).to(factors.dtype)[None]
        probs = probabilities(parameters, seen, factors[len(actions)])[0]
        actions.append(chosen(probs, float(uniforms[len(actions)])))
        logs.append(probs[actions[-1]].log())
        state, reward, over = env.step(actions[-1])
        rewards.append(reward)
    return actions, rewards, logs


def standardized(case: Any, played: list[Played]) -> list[torch.Tensor]:
    """Each observer's returns, with mean 0 and variance 1 over all of them; from here on in the case's dtype."""
    each = [returns(rewards, case.gamma) for _, rewards, _ in played]
    flat = np.array([*chain(*each)], case.dtype)
    away = flat - mean(flat)
    brought = away / (root(mean(away * away)) + np.finfo(np.float32).eps)
    parts = np.split(brought, np.cumsum([len(one) for one in each])[:-1])
    return [torch.from_numpy(part) for part in parts]


def mean(numbers: Any) -> Any:
    """Add in the order of torch's kernel, then divide."""
    return torch.from_numpy(numbers).sum().numpy() / numbers.dtype.type(len(numbers))


def root(number: Any) -> Any:
    """The square root by torch's kernel: in float32 one in five differs from the nearest number, by its last bit."""
    return torch.from_numpy(np.asarray(number)).sqrt().numpy()[()]


def loss(played: Played, weights: torch.Tensor) -> torch.Tensor:
    return -(torch.stack(played[2]) * weights).sum()
