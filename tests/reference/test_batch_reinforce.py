"""The batched and the unbatched agent: against their twins, against each other, and every way to fail."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed.rpc as rpc

from reference.batch_reinforce import Agent, Case, roles, train_locally
from reference.outcome import Raised
from reference.rounding.reordering import twins_for
from reference.training import cartpole
from reference.world import launch
from tests.support.answers import answer
from tests.support.runs import against_twin, launch_and_wait, rounding_bound, run, twin

SMALL = Case(steps=2, n_steps=40, timeout=20.0)
NAMES = ["agent", "observer1", "observer2"]
FAILED = "reference.batch_reinforce.AgentFailed"
STATE = np.zeros(4, dtype=np.float32)


@pytest.mark.parametrize("batch", [True, False])
def test_another_environment_equals_its_twin(batch: bool) -> None:
    """It has three actions. tests/properties has the other cases."""
    assert against_twin(run(replace(SMALL, batch=batch, env="Acrobot-v1", dtype="float64", gamma=0.9))).equal


@pytest.mark.parametrize(("observers", "dropout"), [(1, 0.0), (3, 0.6)])
def test_batched_and_unbatched_do_the_same(observers: int, dropout: float) -> None:
    """Compare the unbatched run with the batched twins: actions equal; log-probabilities, gradients and parameters no
    worse than rounding makes the twin's. With one generator per observer this holds even with dropout (S2.29)."""
    case = replace(SMALL, observers=observers, dropout=dropout, batch=False, n_steps=20)
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


def ask(agent: Agent, ob_id: int) -> torch.futures.Future[Any]:
    return rpc.rpc_async("agent", Agent.select_action_batch, args=(agent.agent_rref, ob_id, STATE))  # type: ignore[no-any-return]


def ready_agent() -> Agent:
    agent = Agent(SMALL)
    agent.begin(SMALL.n_steps)
    return agent


def twice() -> tuple[list[tuple[Any, str]], list[bool]]:
    """Runs on agent: an observer that calls twice in one step; then the other comes.

    Returns also whether the lock was held while the first reply was made.
    """
    agent, locked = ready_agent(), list[bool]()
    first = Agent.select_action_batch(agent.agent_rref, 0, STATE)
    first.then(lambda _: locked.append(agent.lock.locked()))
    again = answer(ask(agent, 0).wait)  # answered before the other comes, because calls may overtake each other
    return [again.short, answer(ask(agent, 1).wait).short, answer(first.wait).short], locked


def test_a_second_call_in_one_step_is_refused_and_harms_nobody() -> None:
    """Erratum S2.31: in the published form the policy runs with another's stale state, and that one waits forever.
    Erratum S2.32: replies are made outside the lock."""
    with launch(NAMES) as world:
        (refused, other, first), locked = world.call("agent", twice)
    assert "observer1 calls twice in one step" in refused[0]
    assert other[1] == first[1] == "int"
    assert locked == [False]


def test_only_the_agent_has_one_thread() -> None:
    """Observers block in nested calls; the agent's graph has to be made in one thread."""
    playing: Any = roles(SMALL)
    assert playing.each == {"agent": {"num_worker_threads": 1}}
    assert list(playing) == NAMES
