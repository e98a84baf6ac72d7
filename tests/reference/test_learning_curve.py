"""The learning curve: what a trace has of rewards, and when they show that the agent learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch

from reference.trace import Trace, TraceError
from reference.trace.case import text_field
from reference.trace.trace import Recorder
from reference.training.cartpole import goal, record_reward, running_rewards
from reference.training.training_case import TrainingCase


@dataclass(frozen=True)
class Sample(TrainingCase):
    """An agent's case."""

    env: str = text_field("CartPole-v1", "gymnasium's name of the environment")  # its threshold is 475


def curve(*running: float, env: str = "CartPole-v1", episodes: Sequence[int] | None = None) -> Trace:
    """A trace with these running rewards, in these episodes or in all."""
    recorder = Recorder(Sample(steps=len(running), env=env), {})
    for episode in range(len(running)) if episodes is None else episodes:
        record_reward(recorder, episode, 2 * running[episode], running[episode])
    return recorder.trace()


def test_rewards_are_recorded_in_float64() -> None:
    tensors = curve(0.1).tensors
    assert {name: tensor.item() for name, tensor in tensors.items()} == {
        "0000/reward/episode": 0.2,
        "0000/reward/running": 0.1,
    }
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float64}


def test_running_rewards_are_in_the_order_of_episodes() -> None:
    assert running_rewards(curve(3.0, 1.0, 2.0)) == [3.0, 1.0, 2.0]


def test_a_trace_without_every_running_reward_is_refused() -> None:
    with pytest.raises(TraceError, match=r"^a running reward in 2 of 3 episodes, wanted one in each$"):
        running_rewards(curve(1.0, 2.0, 3.0, episodes=[0, 2]))


def test_the_goal_is_the_first_reward_that_reaches_half_of_the_threshold() -> None:
    assert goal(curve(100.0, 237.5, 500.0)) == "running reward 237.5 after 2 episodes"


def test_a_reward_below_that_is_no_goal() -> None:
    with pytest.raises(TraceError, match=r"^running reward at most 237\.4 in 3 episodes, wanted 237\.5$"):
        goal(curve(1.0, 237.4, 2.0))


def test_an_environment_without_a_threshold_has_no_goal() -> None:
    with pytest.raises(TraceError, match=r"^Pendulum-v1 has no threshold of the reward$"):
        goal(curve(1.0, env="Pendulum-v1"))
