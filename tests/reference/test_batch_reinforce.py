"""The batched and the unbatched agent: against their twins, against each other, and every way to fail."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
import torch.distributed.rpc as rpc

import reference.batch_reinforce
from reference.batch_reinforce import Agent, Case, Observer, roles
from reference.outcome import Raised
from reference.rounding.bound import NaturalBound
from reference.training import cartpole
from reference.training.batch_episode import SavedActions
from reference.world import launch
from tests.support.runs import against_twin, bound_of, launch_and_wait, run, twin

SMALL = Case(steps=2, n_steps=40, timeout=20.0)
NAMES = ["agent", "observer1", "observer2"]
FAILED = "reference.batch_reinforce.AgentFailed"
STATE = np.zeros(4, dtype=np.float32)


@pytest.mark.parametrize("observers", [1, 2, 3, 5])
@pytest.mark.parametrize("batch", [True, False])
def test_equals_its_twin(batch: bool, observers: int) -> None:
    """It runs twice: observers come in another order each time, and that decides nothing."""
    case = replace(SMALL, batch=batch, observers=observers)
    first, second = run(case), run(case)
    assert against_twin(first).equal
    assert against_twin(second).equal
    assert first.tensors["0001/steps/actions"].shape == (40, observers)
    assert first.tensors["0001/steps/rewards"].shape == (40, observers)
    assert first.tensors["0001/steps/log_probs"].shape == (40, observers)


@pytest.mark.parametrize("batch", [True, False])
def test_another_environment_in_float64_equals_its_twin(batch: bool) -> None:
    case = replace(SMALL, batch=batch, env="Acrobot-v1", dtype="float64", gamma=0.9)
    assert against_twin(run(case)).equal


def both_modes(observers: int, **arguments: Any) -> NaturalBound:
    """Compare the unbatched run, with dropout off, with the batched twins: names and layouts are the same."""
    case = replace(SMALL, observers=observers, dropout=0.0, batch=False, n_steps=20)
    unbatched = run(case, **arguments)
    return bound_of(unbatched, replace(case, batch=True))


@pytest.mark.parametrize("observers", [1, 2, 3, 5])
def test_batched_and_unbatched_do_the_same(observers: int) -> None:
    """Actions equal; log-probabilities, gradients and parameters no worse than rounding makes the twin's."""
    bound = both_modes(observers)
    assert {"0000/steps/log_probs", "0000/gradient/affine1.weight", "0001/parameter/affine2.bias"} <= set(bound.ratios)
    assert bound.holds, bound.worst


def published_losses(case: Case, saved: SavedActions, rewards: torch.Tensor) -> list[torch.Tensor]:
    """Erratum S2.27: (observer, step, 1) times (step, observer)."""
    probs = saved.log_probs.t().unsqueeze(2)
    return [(-probs * rewards / case.observers).sum()]


def plant_the_broadcast(role: str) -> None:
    """A ``before``."""
    reference.batch_reinforce.losses_of = published_losses


@pytest.mark.long
def test_the_published_broadcast_is_seen() -> None:
    """Erratum S2.27: right with one observer, and no error with two."""
    assert both_modes(1, before=plant_the_broadcast).holds
    # In float64 the trajectories of both would differ after the first wrong update: look at the first only.
    case = replace(SMALL, dropout=0.0, batch=False, steps=1)
    wrong = run(case, before=plant_the_broadcast)
    bound = bound_of(wrong, replace(case, batch=True))
    assert not bound.holds
    assert bound.ratios["0000/steps/log_probs"] <= 1
    assert bound.ratios["0000/gradient/affine1.weight"] > 1000


@pytest.mark.long
def test_dropout_masks_do_not_depend_on_the_mode() -> None:
    """With one generator per observer both modes agree even with dropout; with one for all they do not (S2.29)."""
    case = replace(SMALL, observers=3, batch=False)
    bound = bound_of(run(case), replace(case, batch=True))
    assert bound.holds, bound.worst


@pytest.mark.long
def test_training_raises_the_reward() -> None:
    case = Case(steps=30, n_steps=300, dropout=0.0, record="ends")
    rewards = [twin(case).tensors[f"{episode:04d}/reward/running"].item() for episode in (4, 29)]
    assert rewards[1] > 3 * rewards[0]


# Ways to fail


@dataclass(frozen=True)
class BrokenPolicy:
    """A ``before``: the agent's policy has NaN parameters from its third step on."""

    def __call__(self, role: str) -> None:
        act, calls = reference.batch_reinforce.act, itertools.count(1)

        def broken(policy: Any, *args: Any) -> Any:
            if next(calls) == 3:
                policy.affine2.bias.data.fill_(float("nan"))
            return act(policy, *args)

        reference.batch_reinforce.act = broken  # type: ignore[assignment]


@pytest.mark.parametrize("batch", [True, False])
def test_a_failing_policy_ends_every_wait_at_once(batch: bool) -> None:
    """Erratum S2.33: in the published form the others wait for the RPC timeout."""
    case = replace(SMALL, observers=3, batch=batch, timeout=300)
    outcome = launch_and_wait(case, deadline=40, before=BrokenPolicy())["agent"]
    assert isinstance(outcome, Raised)
    assert outcome.type == FAILED
    assert "the policy failed: ValueError: no action can be chosen with probabilities [nan, nan]" in outcome.message


def stop_observer2(role: str) -> None:
    """A ``before``: observer2 stops itself in its sixth step."""
    if role != "observer2":
        return
    run_episode = Observer.run_episode

    def stopping_episode(self_: Observer, *args: Any) -> Any:
        step, calls = self_.env.step, itertools.count(1)

        def stopping(action: int) -> Any:
            if next(calls) == 6:
                os.kill(os.getpid(), signal.SIGSTOP)
                threading.Event().wait()  # the signal may take a moment
            return step(action)

        self_.env.step = stopping  # type: ignore[method-assign]
        return run_episode(self_, *args)

    Observer.run_episode = stopping_episode  # type: ignore[method-assign, assignment]


@pytest.mark.long
@pytest.mark.parametrize("batch", [True, False])
def test_a_stopped_observer_is_named_when_it_was_silent_too_long(batch: bool) -> None:
    playing = roles(replace(SMALL, batch=batch, n_steps=40 if batch else 2000, timeout=2.0))
    with launch(list(playing), before=stop_observer2) as world:  # idle observers, which the agent calls
        outcome = world.run({"agent": playing["agent"]})["agent"]
    assert isinstance(outcome, Raised)
    assert outcome.type == FAILED
    assert outcome.message == "nothing for 2.0 s from observer2"


def ask(agent: Agent, ob_id: int) -> torch.futures.Future[Any]:
    return rpc.rpc_async("agent", Agent.select_action_batch, args=(agent.agent_rref, ob_id, STATE))  # type: ignore[no-any-return]


def _end(future: torch.futures.Future[Any]) -> str:
    try:
        return type(future.wait()).__name__
    except RuntimeError as error:
        return str(error)


class Came(list[str]):
    """Lets a test wait until an observer has come in a step."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = threading.Semaphore(0)

    def append(self, name: str) -> None:
        super().append(name)
        self.changed.release()


def ready_agent() -> tuple[Agent, Came]:
    agent = Agent(SMALL)
    agent.begin(SMALL.n_steps)
    agent.steps.joined = came = Came()
    return agent, came


def twice() -> list[str]:
    """Runs on agent: an observer that calls twice in one step; then the other comes."""
    agent, came = ready_agent()
    first = ask(agent, 0)
    assert came.changed.acquire(timeout=10)
    ends = [_end(ask(agent, 0))]
    return [*ends, _end(ask(agent, 1)), _end(first)]


def test_a_second_call_in_one_step_is_refused_and_harms_nobody() -> None:
    """Erratum S2.31: in the published form the policy runs with another's stale state, and that one waits forever."""
    with launch(NAMES) as world:
        ends = world.call("agent", twice)
    assert "observer1 calls twice in one step" in ends[0]
    assert ends[1:] == ["int", "int"]


def lock_in_callbacks() -> list[bool]:
    """Runs on agent: whether the lock is held while replies are made."""
    agent, _ = ready_agent()
    seen: list[bool] = []
    Agent.select_action_batch(agent.agent_rref, 0, STATE).then(lambda _: seen.append(agent.lock.locked()))
    ask(agent, 1).wait()
    return seen


def test_replies_are_made_outside_the_lock() -> None:
    """Erratum S2.32."""
    with launch(NAMES) as world:
        assert world.call("agent", lock_in_callbacks) == [False]


@pytest.mark.long
def test_an_episode_may_take_longer_than_the_rpc_timeout() -> None:
    """Erratum S2.34."""
    case = replace(SMALL, steps=1, n_steps=4000, observers=1, record="ends")
    reports: list[float] = []
    start = time.monotonic()
    run(case, options={"rpc_timeout": 1.0}, on_progress=lambda role, record: reports.append(time.monotonic()))
    assert reports[0] - start > 1.5


def test_a_missing_observer_is_named() -> None:
    with launch(["agent", "observer1"]) as world:
        outcome = world.run({"agent": roles(SMALL)["agent"]})["agent"]
    assert isinstance(outcome, Raised)
    assert "could not find destination name observer2" in outcome.message


def test_only_the_agent_has_one_thread() -> None:
    """Observers block in nested calls; the agent's graph has to be made in one thread."""
    playing: Any = roles(SMALL)
    assert playing.each == {"agent": {"num_worker_threads": 1}}
    assert list(playing) == NAMES


class Slow(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment in which some steps take long."""

    def __init__(self, env: Any, seconds: Mapping[int, float]) -> None:
        super().__init__(env)
        self.seconds = seconds
        self.steps = 0

    def step(self, action: int) -> Any:
        self.steps += 1
        threading.Event().wait(self.seconds.get(self.steps, 0.0))
        return self.env.step(action)


@dataclass(frozen=True)
class SlowEnvironments:
    """A ``before``, which makes environments slow: seconds by role and step."""

    seconds: Mapping[str, Mapping[int, float]]

    def __call__(self, role: str) -> None:
        original = cartpole.make_environment
        cartpole.make_environment = lambda name: Slow(original(name), self.seconds.get(role, {}))


@pytest.mark.long
def test_waiting_for_others_is_not_silence() -> None:
    """observer1 waits 1.6 s for observer2, then takes 0.8 s itself: never 2 s without a word that it could say."""
    slow = SlowEnvironments({"observer2": {3: 1.6}, "observer1": {4: 0.8}})
    assert against_twin(run(replace(SMALL, observers=2, n_steps=10, timeout=2.0), before=slow)).equal
