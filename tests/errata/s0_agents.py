"""Errata S0.8 to S0.14: the introduction's reinforcement learning."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import torch
import torch.distributed.rpc as rpc
from torch import nn
from torch.distributions import Categorical

from tests.errata.listings import shows


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.affine = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.affine(x).softmax(dim=1)  # type: ignore[no-any-return]


class Agent:
    """The published agent; the parts that the listing leaves out are missing."""

    def __init__(self) -> None:
        self.ob_rrefs: list[Any] = []
        self.policy = Policy()
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=1e-2)

    def select_action(self, state: Any) -> float:
        probs = self.policy(torch.as_tensor(state).float().unsqueeze(0))
        return Categorical(probs).sample().item()  # type: ignore[no-any-return]

    def report_reward(self, reward: float) -> None:
        pass

    def run_episode(self, n_steps: int) -> None:
        pass

    def finish_episode(self) -> None:
        pass


def parameters(agent: Agent) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in agent.policy.parameters()]


@shows("S0.8", gives={"observers": 0, "optimizer steps": 0, "changed": False})
def a_hundred_episodes() -> dict[str, object]:
    agent = Agent()
    before = parameters(agent)
    for _ in range(100):
        agent.run_episode(n_steps=10)
        agent.finish_episode()
    changed = any(not torch.equal(a, b) for a, b in zip(before, parameters(agent), strict=True))
    return {"observers": len(agent.ob_rrefs), "optimizer steps": len(agent.optimizer.state), "changed": changed}


def call_of_a_rank(method: str, *args: object) -> None:
    """Call the agent's method with the published arguments, of which the first is a rank."""
    getattr(rpc.remote("worker1", Agent).rpc_sync(), method)(*args)


for number, method, argument in (("S0.10", "select_action", [0.0] * 4), ("S0.11", "report_reward", 1.0)):
    wrong = f"TypeError('Agent.{method}() takes 2 positional arguments but 3 were given')"
    shows(number, raises=("TypeError", f"TypeError: On WorkerInfo(id=1, name=worker1):\n{wrong}"))(
        partial(call_of_a_rank, method, 1, argument)
    )


@shows("S0.12", gives={"action": int, "kept": []})
def what_an_action_leaves() -> dict[str, object]:
    """Return the kind of an action, and what the agent can differentiate afterwards."""
    agent = Agent()
    known = set(vars(agent))
    action = agent.select_action([0.0] * 4)
    kept = sorted(set(vars(agent)) - known) + [p.grad_fn for p in agent.policy.parameters() if p.grad_fn]
    return {"action": type(action), "kept": kept}


@shows("S0.13", gives={"10 steps": [10.0], "500 steps, skill over chance": True})
def episodes_of_both_policies() -> dict[str, object]:
    """Return the rewards that occur in ten episodes each of chance and of skill, and whether skill pays."""
    short = rewards(by_chance, 10) + rewards(by_skill, 10)
    skill, chance = rewards(by_skill, 500), rewards(by_chance, 500)
    return {"10 steps": sorted(set(short)), "500 steps, skill over chance": min(skill) > max(chance)}


def by_chance(state: Any, draws: torch.Generator) -> int:
    return int(torch.randint(2, (1,), generator=draws))


def by_skill(state: Any, draws: torch.Generator) -> int:
    """Push in the direction in which the pole falls."""
    return int(state[2] + state[3] > 0)


def rewards(policy: Callable[[Any, torch.Generator], int], n_steps: int) -> list[float]:
    env, draws = gymnasium.make("CartPole-v1"), torch.Generator().manual_seed(0)
    earned = []
    for episode in range(10):
        state, _ = env.reset(seed=episode)
        reward = 0.0
        for _ in range(n_steps):
            state, gained, terminated, truncated, _ = env.step(policy(state, draws))
            reward += float(gained)
            if terminated or truncated:
                break
        earned.append(reward)
    return earned


@shows("S0.14", gives={"one generator": False, "one each": True})
def same_actions_in_another_order_of_arrival() -> dict[str, bool]:
    """Draw two observers' actions as they arrive: do both orders of arrival give each the same actions?"""
    orders = [[0, 1] * 8, [1, 0] * 8]
    shared = [actions(order, [torch.Generator().manual_seed(0)] * 2) for order in orders]
    own = [actions(order, [torch.Generator().manual_seed(seed) for seed in (0, 1)]) for order in orders]
    return {"one generator": shared[0] == shared[1], "one each": own[0] == own[1]}


def actions(order: list[int], draws: list[torch.Generator]) -> list[list[int]]:
    taken: list[list[int]] = [[], []]
    for observer in order:
        taken[observer].append(int(torch.multinomial(torch.ones(2), 1, generator=draws[observer])))
    return taken
