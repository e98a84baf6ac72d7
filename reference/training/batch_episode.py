"""One episode of `batch_reinforce`: the actions that were saved, and the twin's game."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import torch

from reference.trace.recorder import Recorder
from reference.training.cartpole import Draws, discounted, seeded_environment


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

    def __init__(self, draws: Sequence[Draws], batch: bool) -> None:
        """Begin the episode for which each observer has its ``draws``.

        ``batch``: each step is added once for all observers; otherwise each observer's steps are added singly.
        """
        self.width = len(draws) if batch else 1
        self._uniforms: list[list[float]] = torch.stack([each.uniforms for each in draws], dim=1).tolist()
        masks = [each.dropout_mask for each in draws if each.dropout_mask is not None]
        # Taken apart here, because between calls even an index takes long (`log_probs`).
        self._dropout_masks = torch.stack(masks, dim=1).unbind() if masks else [None] * len(self._uniforms)
        self._actions: list[list[list[int]]] = [[] for _ in range(len(draws) // self.width)]
        self._probs: list[list[torch.Tensor]] = [[] for _ in self._actions]

    def draws(self, observer: int | None = None) -> tuple[torch.Tensor | None, list[float]]:
        """Return the next step's dropout factors and action draws, for all observers or for one (from 0).

        The factors are (observers, HIDDEN) for all and (HIDDEN,) for one; None if nothing is dropped.
        """
        step = len(self._actions[observer or 0])
        dropout_mask, uniforms = self._dropout_masks[step], self._uniforms[step]
        if observer is None:
            return dropout_mask, uniforms
        return None if dropout_mask is None else dropout_mask[observer], uniforms[observer : observer + 1]

    def add(self, actions: list[int], probs: torch.Tensor, observer: int | None = None) -> None:
        """Add the next step of all observers, or of this one; ``probs`` has shape (observers or 1, all actions)."""
        self._actions[observer or 0].append(actions)
        self._probs[observer or 0].append(probs)

    @cached_property
    def log_probs(self) -> list[torch.Tensor]:
        """The log-probabilities of the episode's actions, once it is over: one tensor (step, observer) with ``batch``,
        otherwise one (step, 1) for each observer.

        They are computed for all steps at once: between calls, whose messages take the caches, each of torch's
        operations takes several times as long.
        """
        taken = [torch.tensor(each).unsqueeze(2) for each in self._actions]
        return [torch.stack(each).gather(2, of).squeeze(2).log() for each, of in zip(self._probs, taken, strict=True)]

    def beside(self, rewards: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield pairs of log-probabilities and their ``rewards``, which are (step, observer).

        With ``batch`` there is one pair for all observers. Otherwise each observer has a pair (step, 1), because the
        order in which observers' steps were added must not become the order of sums.
        """
        yield from zip(self.log_probs, rewards.split(self.width, dim=1), strict=True)

    def record(self, recorder: Recorder, episode: int, rewards: torch.Tensor) -> None:
        """Put actions, log-probabilities and ``rewards`` into the trace, all (step, observer)."""
        # Actions are recorded in "ends" too: runs with different actions do not differ by rounding only.
        steps = {"actions": torch.cat([torch.tensor(each) for each in self._actions], dim=1)}
        if recorder.every:
            steps |= {"rewards": rewards, "log_probs": torch.cat(self.log_probs, dim=1)}
        recorder.put(f"{episode:04d}/steps", steps)
