"""Play for agents: the game, the actions that were saved, and how they learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import torch

from reference.trace.trace import Recorder, Trace, TraceError
from reference.training.cartpole import EpisodeDraws, discounted, seeded_environment


class Game:
    """Holds the next state, and in ``starts`` the rewards of one episode, one list per start."""

    def __init__(self, name: str, seed: int, observer: str) -> None:
        """``name``: gymnasium's name of the environment; ``seed``: the case's."""
        self.env = seeded_environment(name, seed, observer)
        self.starts: list[list[float]] = []
        self.state: Any = None

    def begin(self) -> None:
        """Begin an episode."""
        self.starts = []
        self._start()

    def step(self, action: int, last: bool) -> None:
        """Act once; start again if the environment has ended, or this was the episode's ``last`` step."""
        self.state, reward, terminated, truncated, _ = self.env.step(action)
        self.starts[-1].append(float(reward))
        if terminated or truncated or last:
            self._start()

    def returns(self, gamma: float) -> list[float]:
        """Return for each step the discounted sum of the rewards from this step to the end of its start."""
        return [value for start in self.starts for value in discounted(start, gamma)]

    def _start(self) -> None:
        self.state, _ = self.env.reset()
        self.starts.append([])


class SavedActions:
    """Holds one episode's steps; it hands them out as (step, observer), however they were added (S2.27)."""

    def __init__(self, draws: EpisodeDraws, batch: bool) -> None:
        """``batch``: each step is added once for all observers; otherwise each observer's steps are added singly."""
        self.width = draws.observers if batch else 1
        self._draws = draws
        self._actions: list[list[list[int]]] = [[] for _ in range(draws.observers // self.width)]
        self._log_probs: list[list[torch.Tensor]] = [[] for _ in self._actions]

    def draws(self, observer: int | None = None) -> tuple[torch.Tensor | None, list[float]]:
        """Return the next step's dropout factors and action draws, for all observers or for one (from 0)."""
        step = len(self._actions[observer or 0])
        return self._draws.dropout_mask_at(step, observer), self._draws.uniforms_at(step, observer)

    def add(self, actions: list[int], log_probs: torch.Tensor, observer: int | None = None) -> None:
        """Add the next step of all observers, or of this one; ``log_probs`` has shape (observers,) or (1,)."""
        self._actions[observer or 0].append(actions)
        self._log_probs[observer or 0].append(log_probs)

    @property
    def actions(self) -> torch.Tensor:
        """Return all actions, (step, observer)."""
        return torch.cat([torch.tensor(each) for each in self._actions], dim=1)

    @property
    def log_probs(self) -> torch.Tensor:
        """Return all log-probabilities, (step, observer)."""
        return torch.cat([torch.stack(each) for each in self._log_probs], dim=1)

    def beside(self, rewards: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield pairs of log-probabilities and their ``rewards``, which are (step, observer).

        With ``batch`` there is one pair for all observers. Otherwise each observer has a pair (step, 1), because the
        order in which observers' steps were added must not become the order of sums.
        """
        for each, part in zip(self._log_probs, rewards.split(self.width, dim=1), strict=True):
            yield torch.stack(each), part

    def record(self, recorder: Recorder, episode: int, rewards: torch.Tensor) -> None:
        """Put actions, log-probabilities and ``rewards`` into the trace, all (step, observer)."""
        # Actions are recorded in "ends" too: runs with different actions do not differ by rounding only.
        steps = {"actions": self.actions}
        if recorder.every:
            steps |= {"rewards": rewards, "log_probs": self.log_probs}
        recorder.put(f"{episode:04d}/steps", steps)


# The part of the environment's published threshold at which an agent has learnt. The whole threshold comes after 190,
# 241 or 308 episodes of the same case: processors round differently, and after some episodes actions differ.
LEARNT = 0.5


def record_reward(recorder: Recorder, episode: int, reward: float, running: float) -> None:
    """Record an episode's reward and its running average."""
    rewards = {"episode": reward, "running": running}
    recorder.put(f"{episode:04d}/reward", {n: torch.tensor(each, dtype=torch.float64) for n, each in rewards.items()})


def running_rewards(trace: Trace) -> list[float]:
    """Read the running reward after each episode. Raises TraceError: it is not in the trace."""
    curve = [trace.tensors.get(f"{episode:04d}/reward/running") for episode in range(trace.case.steps)]
    found = [float(reward) for reward in curve if reward is not None and reward.numel() == 1]
    if len(found) < len(curve):
        raise TraceError(f"a running reward in {len(found)} of {len(curve)} episodes, wanted one in each")
    return found


def goal(trace: Trace) -> str:
    """Say after how many episodes the running reward has reached half of the environment's published threshold.

    Raises:
        TraceError: it has never reached it, or the environment has no threshold.
    """
    threshold = gymnasium.spec(trace.case.env).reward_threshold  # type: ignore[attr-defined]
    if threshold is None:
        raise TraceError(f"{trace.case.env} has no threshold of the reward")  # type: ignore[attr-defined]
    curve, wanted = running_rewards(trace), LEARNT * threshold
    for episode, reward in enumerate(curve, start=1):
        if reward >= wanted:
            return f"running reward {reward:.1f} after {episode} episodes"
    raise TraceError(f"running reward at most {max(curve):.1f} in {len(curve)} episodes, wanted {wanted}")
