"""CartPole for both agents: actions from draws, usable environments, and the goal."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from reference import load
from reference.trace import CaseError, Trace, TraceError
from reference.trace.case import text_field
from reference.trace.recorder import Recorder
from reference.training.cartpole import goal, pick, record_reward, sizes_of
from reference.training.training_case import TrainingCase


@pytest.mark.parametrize(
    ("probabilities", "uniform", "action"),
    [
        ([0.25, 0.75], 0.0, 0),
        ([0.25, 0.75], 0.2499, 0),
        ([0.25, 0.75], 0.25, 1),
        ([0.0, 1.0], 0.0, 1),
        ([1.0, 0.0], 0.999999, 0),
        ([0.5, 0.25, 0.25], 0.75, 2),
        ([0.5, 0.25, 0.0], 0.9, 1),  # rounding may leave the sum below 1; never an action of probability 0
    ],
)
def test_a_draw_chooses_the_action_by_cumulated_probabilities(
    probabilities: list[float], uniform: float, action: int
) -> None:
    assert pick(probabilities, uniform) == action


@pytest.mark.parametrize("probabilities", [[math.nan, math.nan], [0.5, math.nan], [0.0, 0.0]])
def test_a_policy_of_nan_chooses_no_action(probabilities: list[float]) -> None:
    """Erratum S2.33 begins with such a policy."""
    with pytest.raises(ValueError, match=r"^no action can be chosen with probabilities \["):
        pick(probabilities, 0.75)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("NoSuch-v1", r"^NameNotFound: "),
        ("Pendulum-v1", r"^its actions are Box"),
        ("FrozenLake-v1", r"^its states are Discrete"),
    ],
)
def test_environments_that_cannot_be_used_are_refused(name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        sizes_of(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("tutorial", ["reinforce", "batch_reinforce"])
@pytest.mark.parametrize("name", ["NoSuch-v1", "Pendulum-v1"])
def test_an_agents_case_with_such_an_environment_is_refused(tutorial: str, name: str) -> None:
    wanted = "env must be a gymnasium environment with a vector as state and numbered actions "
    with pytest.raises(CaseError, match=rf"^{tutorial}: {wanted}") as caught:
        load(tutorial).Case(env=name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [".x:Foo-v1", "this:Foo-v1"])
def test_a_name_with_a_module_is_refused_before_anything_is_imported(name: str) -> None:
    with pytest.raises(ValueError, match=r"^names with a module, which would be imported, are not taken$"):
        sizes_of(name)
    assert "this" not in sys.modules


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


def test_a_trace_without_every_running_reward_is_refused() -> None:
    with pytest.raises(TraceError, match=r"^a running reward in 2 of 3 episodes, wanted one in each$"):
        goal(curve(1.0, 2.0, 3.0, episodes=[0, 2]))


def test_the_goal_is_the_first_reward_that_reaches_half_of_the_threshold() -> None:
    assert goal(curve(100.0, 237.5, 500.0)) == "running reward 237.5 after 2 episodes"


def test_a_reward_below_that_is_no_goal() -> None:
    with pytest.raises(TraceError, match=r"^running reward at most 237\.4 in 3 episodes, wanted 237\.5$"):
        goal(curve(1.0, 237.4, 2.0))


def test_an_environment_without_a_threshold_has_no_goal() -> None:
    with pytest.raises(TraceError, match=r"^Pendulum-v1 has no threshold of the reward$"):
        goal(curve(1.0, env="Pendulum-v1"))
