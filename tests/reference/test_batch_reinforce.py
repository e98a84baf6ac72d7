"""The batched and the unbatched agent: against their twins, against each other, and every way to fail."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch.distributed.rpc as rpc

from reference.batch_reinforce import Agent, AgentFailed, Case, roles, train_locally
from reference.outcome import Raised
from reference.rounding.reordering import twins_for
from reference.training import cartpole
from reference.world import launch
from tests.support.runs import against_twin, launch_and_wait, rounding_bound, run, twin

SMALL = Case(steps=2, n_steps=40, timeout=20.0)
NAMES = ["agent", "observer1", "observer2"]
FAILED = "reference.batch_reinforce.AgentFailed"


@pytest.mark.parametrize("batch", [True, False])
def test_another_environment_equals_its_twin(batch: bool) -> None:
    """It has three actions. tests/properties has the other cases."""
    assert against_twin(run(replace(SMALL, batch=batch, env="Acrobot-v1", dtype="float64", gamma=0.9))).equal


def test_batched_and_unbatched_do_the_same() -> None:
    """Compare the unbatched run with the batched twins: actions equal; log-probabilities, gradients and parameters no
    worse than rounding makes the twin's. With one generator per observer this holds even with dropout (S2.29)."""
    case = replace(SMALL, observers=3, dropout=0.6, batch=False, n_steps=20)
    found, other = run(case), replace(case, batch=True)
    bound = rounding_bound(found, *twins_for(twin(other, found), found, train_locally))
    assert {"0000/steps/log_probs", "0000/gradient/affine1.weight", "0001/parameter/affine2.bias"} <= set(bound.ratios)
    assert bound.holds, bound.worst


@pytest.mark.long
def test_training_raises_the_reward() -> None:
    case = Case(steps=30, n_steps=300, dropout=0.0, record="ends")
    tensors = twin(case).tensors
    assert tensors["0029/reward/running"] > 3 * tensors["0004/reward/running"]


# Ways to fail


def break_the_policy(role: str) -> None:
    """Runs before RPC: the third choice of an action has NaN probabilities."""
    pick, calls = cartpole.pick, itertools.count(1)
    nan = [math.nan, math.nan]
    cartpole.pick = lambda probabilities, uniform: pick(nan if next(calls) == 3 else probabilities, uniform)


@pytest.mark.parametrize("batch", [True, False])
def test_a_failing_policy_ends_every_wait_at_once(batch: bool) -> None:
    """Erratum S2.33: in the published form the others wait for the RPC timeout."""
    case = replace(SMALL, observers=3, batch=batch, timeout=300)
    outcome = launch_and_wait(case, deadline=40, before=break_the_policy)["agent"]
    assert isinstance(outcome, Raised)
    assert outcome.type == FAILED
    assert "the policy failed: ValueError: no action can be chosen with probabilities [nan, nan]" in outcome.message


def slow_environments(seconds: Mapping[str, Mapping[int, float]], role: str) -> None:
    """Runs before RPC: steps in environments take so many ``seconds``, by role and step."""
    make, late = cartpole.make_environment, seconds.get(role, {})

    def slow(name: str) -> Any:
        env, calls = make(name), itertools.count(1)
        step = env.step

        def slowly(action: int) -> Any:
            threading.Event().wait(late.get(next(calls), 0.0))
            return step(action)

        env.step = slowly  # type: ignore[method-assign]
        return env

    cartpole.make_environment = slow


@pytest.mark.long
def test_of_several_observers_who_play_one_by_one_the_silent_one_is_named() -> None:
    playing = roles(replace(SMALL, batch=False, n_steps=2000, timeout=2.0))
    stuck = partial(slow_environments, {"observer2": {6: 60.0}})
    with launch(list(playing), before=stuck) as world:  # idle observers, which the agent calls
        outcome = world.run({"agent": playing["agent"]})["agent"]
    assert isinstance(outcome, Raised)
    assert outcome.type == FAILED
    assert outcome.message == "nothing for 2.0 s from observer2"


@pytest.mark.long
def test_waiting_for_others_is_not_silence_and_an_episode_may_take_longer_than_the_rpc_timeout() -> None:
    """observer1 waits 1.6 s for observer2, then takes 0.8 s itself: never 2 s without a word that it could say. RPC's
    own timeout of 1 s limits no episode (S2.34)."""
    case = replace(SMALL, observers=2, n_steps=10, timeout=2.0)
    slow = partial(slow_environments, {"observer2": {3: 1.6}, "observer1": {4: 0.8}})
    assert against_twin(run(case, options={"rpc_timeout": 1.0}, before=slow)).equal


def test_a_second_call_in_one_step_is_refused_and_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Erratum S2.31: in the published form the policy runs with another's stale state, and that one waits forever.
    Erratum S2.32: replies are made outside the lock. Here the calls execute in this thread."""
    monkeypatch.setattr(rpc, "remote", lambda *_, **__: None)  # the observers, which nobody needs
    monkeypatch.setattr(rpc, "get_worker_info", lambda: SimpleNamespace(name="agent"))
    agent, state, locked = Agent(SMALL), np.zeros(4, dtype=np.float32), list[bool]()
    agent.begin(SMALL.n_steps)
    with closing(agent.steps):
        first = Agent.select_action_batch(agent.agent_rref, 0, state)
        first.then(lambda _: locked.append(agent.lock.locked()))
        with pytest.raises(AgentFailed, match="observer1 calls twice in one step"):
            Agent.select_action_batch(agent.agent_rref, 0, state)
        other = Agent.select_action_batch(agent.agent_rref, 1, state)
        assert [type(each.wait()) for each in (first, other)] == [int, int]
    assert locked == [False]


def test_only_the_agent_has_one_thread() -> None:
    """Observers block in nested calls; the agent's graph has to be made in one thread."""
    playing: Any = roles(SMALL)
    assert playing.each == {"agent": {"num_worker_threads": 1}}
    assert list(playing) == NAMES
