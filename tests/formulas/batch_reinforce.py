"""The trace of ``batch_reinforce``, from its formula: every observer makes ``n_steps`` steps per episode.

An environment that ends begins anew. Loss: - Σ log π(a | s) G / observers, over all steps and observers; G is the sum
of the rewards from this step to the end of this start of the environment, the k-th next one times gamma to the power k.
The last start ends with the episode. The parameters follow Adam. The episode's reward is the length of the
first start of the episode, the mean over the observers, and the running one is half of it and half of the last, from 0.

agents.py says which generator draws what. An environment is started at the beginning of an episode, after each end,
and once more after the episode's last step, which nobody uses.

``batch`` decides bits alone: one product of matrices for all observers' states and one backward pass, or for each
observer its own.
"""

from __future__ import annotations

from typing import Any

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
    parameters, envs, draws = initial_parameters(case), environments(case), generators(case)
    adam = torch.optim.Adam(parameters.values(), lr=case.lr)
    found, running = copies(parameters, "initial"), 0.0
    for episode in range(case.steps):
        actions, logs, starts = play(case, parameters, envs, [episode_draws(case, each) for each in draws])
        gains = [[gain for start in of_one for gain in returns(start, case.gamma)] for of_one in starts]
        weights = torch.tensor(gains, dtype=getattr(torch, case.dtype)).T
        losses = [loss(case, *part) for part in zip(logs, weights.split(logs[0].shape[1], dim=1), strict=True)]
        adam.zero_grad()
        for each in losses:
            each.backward()
        gradients = {name: p.grad for name, p in parameters.items() if p.grad is not None}
        adam.step()
        length = sum(len(of_one[0]) for of_one in starts) / case.observers
        running = 0.5 * length + 0.5 * running
        steps = {"actions": torch.tensor(actions), "rewards": weights, "log_probs": torch.cat(logs, dim=1)}
        found |= copies(steps, f"{episode:04d}/steps") | copies(gradients, f"{episode:04d}/gradient")
        found |= copies(parameters, f"{episode:04d}/parameter")
        found[f"{episode:04d}/loss/policy"] = torch.stack([each.detach() for each in losses]).sum()
        found[f"{episode:04d}/reward/episode"] = torch.tensor(length, dtype=torch.float64)
        found[f"{episode:04d}/reward/running"] = torch.tensor(running, dtype=torch.float64)
    return recorded(case, found, case.steps - 1, "steps/rewards", "steps/log_probs")


def play(
    case: Any, parameters: Tensors, envs: list[Any], draws: list[tuple[torch.Tensor, torch.Tensor]]
) -> tuple[list[list[int]], list[torch.Tensor], list[list[list[float]]]]:
    """Actions by step and observer; log-probabilities likewise, one tensor a part; rewards by observer and start.

    A part is what goes through the policy together: all observers with ``batch``, and otherwise each by itself.
    """
    states, all_actions, all_logs = [env.reset() for env in envs], [], []
    starts: list[list[list[float]]] = [[[]] for _ in envs]
    for step in range(case.n_steps):
        seen = torch.stack([torch.from_numpy(state) for state in states]).to(getattr(torch, case.dtype))
        factors = torch.stack([each[step] for _, each in draws])
        size = len(envs) if case.batch else 1
        probs = [probabilities(parameters, *part) for part in zip(seen.split(size), factors.split(size), strict=True)]
        actions = [chosen(row, float(each[step])) for row, (each, _) in zip(torch.cat(probs), draws, strict=True)]
        for number, (env, action) in enumerate(zip(envs, actions, strict=True)):
            states[number], reward, over = env.step(action)
            starts[number][-1].append(reward)
            if over or step == case.n_steps - 1:
                states[number] = env.reset()
                starts[number].append([])
        all_actions.append(actions)
        taken = torch.tensor(actions).split(size)
        all_logs.append([part[range(size), each].log() for part, each in zip(probs, taken, strict=True)])
    return all_actions, [torch.stack(part) for part in zip(*all_logs, strict=True)], starts


def loss(case: Any, logs: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return -(logs * weights / int(case.observers)).sum()
