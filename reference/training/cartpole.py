"""CartPole for both tutorials with agents: environment, each observer's random draws, returns, the learning curve."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import gymnasium
import torch
from torch import nn, optim

from reference.trace.recorder import Recorder
from reference.trace.trace import Trace, TraceError
from reference.training.rng import generator, seed_for

HIDDEN = 128  # units of the policy's hidden layer, which dropout masks
EPS = torch.finfo(torch.float32).eps  # keeps the division by a deviation of 0 finite


@lru_cache
def sizes_of(name: str) -> tuple[int, int]:
    """Return (numbers in a state, number of actions) of a gymnasium environment.

    Raises:
        ValueError: the environment is unknown or not installed, or its states are no vectors or its actions no numbers.
    """
    if ":" in name:
        raise ValueError("names with a module, which would be imported, are not taken")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about old versions; an error would say the same
            env = make_environment(name)
    except (gymnasium.error.Error, ImportError) as error:
        raise ValueError(f"{type(error).__name__}: {' '.join(str(error).split())}") from error
    env.close()
    states, actions = env.observation_space, env.action_space
    if not isinstance(states, gymnasium.spaces.Box) or len(states.shape) != 1:
        raise ValueError(f"its states are {states}")
    if not isinstance(actions, gymnasium.spaces.Discrete) or actions.start != 0:
        raise ValueError(f"its actions are {actions}")
    return states.shape[0], int(actions.n)


def make_environment(name: str) -> gymnasium.Env[Any, Any]:
    """Make a gymnasium environment without gymnasium's checks for authors, which would run at every step."""
    return gymnasium.make(name, disable_env_checker=True)


def seeded_environment(name: str, seed: int, observer: str) -> gymnasium.Env[Any, Any]:
    """Make an observer's environment and seed it once: later resets continue its random numbers (S2.24)."""
    env = make_environment(name)
    # A seed of its own: one for all would give every observer the same start states (S2.25).
    env.reset(seed=seed_for(seed, f"{observer}/environment"))
    return env


class Resets:
    """What decides the coming episodes of an environment: its random numbers, from which each reset draws a state."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self.env = env.unwrapped

    def state_dict(self) -> dict[str, Any]:
        return dict(self.env.np_random.bit_generator.state)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        self.env.np_random.bit_generator.state = state_dict


@dataclass(frozen=True)
class Draws:
    """The random numbers of one observer's episode, by step.

    ``uniforms`` (steps,), float64, choose actions. ``dropout_mask`` (steps, HIDDEN) has dropout's factors, 0 or
    1 / (1 - p); None if nothing is dropped.
    """

    uniforms: torch.Tensor
    dropout_mask: torch.Tensor | None


@dataclass
class Record:
    """One observer's episode so far. ``log_probs`` are tensors of shape (1,)."""

    draws: Draws
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    log_probs: list[torch.Tensor] = field(default_factory=list)


class ObserverRng:
    """One observer's random numbers, which do not depend on the order in which observers call (S0.14, S2.29).

    The agent and the twin make and use it.
    """

    def __init__(self, case: Any, observer: str) -> None:
        self.draws = generator(case.seed, observer)
        self.dropout, self.dtype = case.dropout, case.torch_dtype

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"draws": self.draws.get_state()}

    def load_state_dict(self, state_dict: Mapping[str, torch.Tensor]) -> None:
        self.draws.set_state(state_dict["draws"])

    def episode(self, steps: int) -> Draws:
        """Draw the numbers of the next episode."""
        uniforms = torch.rand(steps, generator=self.draws, dtype=torch.float64)
        if self.dropout == 0:
            return Draws(uniforms, None)
        kept = torch.rand(steps, HIDDEN, generator=self.draws) >= self.dropout
        return Draws(uniforms, kept.to(self.dtype) / (1 - self.dropout))


class Learner:
    """What decides the coming episodes of an agent, for a checkpoint. Both agents are one."""

    policy: nn.Module
    optimizer: optim.Optimizer
    running_reward: float
    rngs: Sequence[ObserverRng]

    def state_dict(self) -> dict[str, Any]:
        learnt = {"policy": self.policy.state_dict(), "optimizer": self.optimizer.state_dict()}
        return {**learnt, "running_reward": self.running_reward, "rngs": [rng.state_dict() for rng in self.rngs]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        self.policy.load_state_dict(state_dict["policy"])
        self.optimizer.load_state_dict(state_dict["optimizer"])
        self.running_reward = state_dict["running_reward"]
        for rng, saved in zip(self.rngs, state_dict["rngs"], strict=True):
            rng.load_state_dict(saved)


def pick(probabilities: Sequence[float], uniform: float) -> int:
    """Choose an action by ``uniform``, in [0, 1): the first whose cumulated probability exceeds it.

    Raises:
        ValueError: a probability is NaN, as it is if the policy's parameters are.
    """
    total, last = 0.0, -1
    for action, probability in enumerate(probabilities):
        total += probability
        if probability > 0:
            last = action
            if uniform < total:
                return action
    if last < 0 or total != total:
        raise ValueError(f"no action can be chosen with probabilities {list(probabilities)}")
    return last  # because rounding left the sum below 1


def discounted(rewards: Sequence[float], gamma: float) -> list[float]:
    """Return for each step its reward plus the later ones, discounted by ``gamma`` per step."""
    returns, following = [0.0] * len(rewards), 0.0
    for step in range(len(rewards) - 1, -1, -1):
        returns[step] = following = rewards[step] + gamma * following
    return returns


def normalized(returns: Sequence[Sequence[float]], dtype: torch.dtype) -> list[torch.Tensor]:
    """Normalise the returns of all observers together to mean 0 and variance 1: one tensor (steps,) per observer.

    torch's operators compute the mean, because the twins that set a run's bound reorder the sums of these only.
    """
    flat = torch.tensor([value for each in returns for value in each], dtype=dtype)
    away = flat - flat.mean()
    deviation = (away * away).mean().sqrt()
    return [*(away / (deviation + EPS)).split([len(each) for each in returns])]


# The part of the environment's published threshold at which an agent has learnt. The whole threshold comes after 190,
# 241 or 308 episodes of the same case: processors round differently, and after some episodes actions differ.
LEARNT = 0.5


def record_reward(recorder: Recorder, episode: int, reward: float, running: float) -> None:
    """Record an episode's reward and its running average."""
    rewards = {"episode": reward, "running": running}
    recorder.put(f"{episode:04d}/reward", {n: torch.tensor(each, dtype=torch.float64) for n, each in rewards.items()})


def goal(trace: Trace) -> str:
    """Say after how many episodes the running reward has reached half of the environment's published threshold.

    Raises:
        TraceError: it has never reached it, it is not in the trace, or the environment has no threshold.
    """
    threshold = gymnasium.spec(trace.case.env).reward_threshold  # type: ignore[attr-defined]
    if threshold is None:
        raise TraceError(f"{trace.case.env} has no threshold of the reward")  # type: ignore[attr-defined]
    curve = [trace.tensors.get(f"{episode:04d}/reward/running") for episode in range(trace.case.steps)]
    found = [float(reward) for reward in curve if reward is not None and reward.numel() == 1]
    if len(found) < len(curve):
        raise TraceError(f"a running reward in {len(found)} of {len(curve)} episodes, wanted one in each")
    least = LEARNT * threshold
    for episode, reward in enumerate(found, start=1):
        if reward >= least:
            return f"running reward {reward:.1f} after {episode} episodes"
    raise TraceError(f"running reward at most {max(found):.1f} in {len(found)} episodes, wanted {least}")
