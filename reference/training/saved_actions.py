"""Actions of one episode with their log-probabilities, saved step by step until the policy learns from them."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from reference.trace.trace import Recorder
from reference.training.cartpole import EpisodeDraws


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
