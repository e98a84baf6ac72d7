"""One observer's environment in a twin: it plays an episode step by step, over as many starts as that takes."""

from __future__ import annotations

from typing import Any

from reference.training.cartpole import discounted, seeded_environment


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
