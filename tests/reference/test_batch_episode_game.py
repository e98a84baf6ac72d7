"""A twin's environment: when it starts, and what its steps are rewarded with."""

from __future__ import annotations

import numpy as np

from reference.training.batch_episode import Game
from reference.training.cartpole import seeded_environment

STEPS = 25  # CartPole falls after some 10 steps to one side


def played(game: Game, steps: int = STEPS) -> list[list[float]]:
    """Play one episode, always to the right; returns the states that the game goes through."""
    game.begin()
    states = [game.state.tolist()]
    for step in range(steps):
        game.step(1, last=step + 1 == steps)
        states.append(game.state.tolist())
    return states


def test_the_environment_starts_after_each_end_and_after_the_last_step() -> None:
    game, env = Game("CartPole-v1", 3, "observer1"), seeded_environment("CartPole-v1", 3, "observer1")
    for _ in range(2):
        states = [env.reset()[0]]
        for step in range(STEPS):
            state, _, terminated, _, _ = env.step(1)
            states.append(env.reset()[0] if terminated or step + 1 == STEPS else state)
        assert played(game) == np.stack(states).tolist()


def test_an_episode_has_its_own_starts_only() -> None:
    game = Game("CartPole-v1", 3, "observer1")
    for _ in range(2):
        played(game)
        *lengths, after_the_last = [len(start) for start in game.starts]
        assert sum(lengths) == STEPS
        assert after_the_last == 0
        assert len(lengths) > 1


def test_returns_end_with_their_start() -> None:
    game = Game("CartPole-v1", 3, "observer1")
    game.starts = [[1.0, 2.0, 4.0], [8.0, 16.0], []]
    assert game.returns(0.5) == [3.0, 4.0, 4.0, 16.0, 16.0]


def test_observers_play_in_environments_of_their_own() -> None:
    first, same, other = (played(Game("CartPole-v1", 3, name)) for name in ("observer1", "observer1", "observer2"))
    assert first == same
    assert first != other
