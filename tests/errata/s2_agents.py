"""Errata S2.25 to S2.32: batched CartPole."""

from __future__ import annotations

import threading
from typing import Any

import gymnasium
import torch
import torch.distributed.rpc as rpc
from torch import nn
from torch.distributed.rpc import RRef
from torch.distributions import Categorical

from tests.errata.listings import OLD, outcome_of, shows

Future = torch.futures.Future[Any]


@shows("S2.25", gives={"one seed": True, "seed and id": False})
def starts_of_two_observers() -> dict[str, bool]:
    """Return whether the start states of three episodes are the same."""
    return {"one seed": starts(543) == starts(543), "seed and id": starts(543) == starts(544)}


def starts(seed: int) -> list[list[float]]:
    env = gymnasium.make("CartPole-v1")
    first, _ = env.reset(seed=seed)
    return [state.tolist() for state in (first, env.reset()[0], env.reset()[0])]


@shows(
    "S2.26",
    gives=[
        "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace "
        "operation: [torch.FloatTensor [2, 4]] is at version 4; expected version 2 instead. Hint: enable anomaly "
        "detection to find the operation that failed to compute its gradient, with "
        f"torch.autograd.set_detect_anomaly(True{'' if OLD else ', check_nan=False'}).",
        "returned None",
    ],
)
def states_that_the_policy_keeps() -> list[str]:
    """Make two steps of two observers, then the backward of the first: published without `.cuda()`, and with a copy."""
    return [end_of_backward(copy=False), end_of_backward(copy=True)]


def end_of_backward(*, copy: bool) -> str:
    policy, states = nn.Linear(4, 2), torch.zeros(2, 1, 4)
    saved = []
    for _ in range(2):
        for ob_id in range(2):
            states[ob_id].copy_(torch.ones(1, 4))
        saved.append(policy(states.clone() if copy else states).sum())
    return outcome_of(torch.stack(saved).sum().backward)


@shows("S2.27", gives={1: ((1, 3, 1), True), 2: ((2, 3, 2), False)})
def loss_of_unbatched_observers() -> dict[int, tuple[tuple[int, ...], bool]]:
    """Return by number of observers the shape of the product over 3 steps, and whether its sum is right."""
    return {observers: product(observers, steps=3) for observers in (1, 2)}


def product(observers: int, steps: int) -> tuple[tuple[int, ...], bool]:
    saved = torch.arange(1.0, observers * steps + 1).reshape(observers, steps, 1)
    rewards = [torch.arange(1.0, steps + 1) * 10**observer for observer in range(observers)]
    probs, stacked = torch.stack([torch.stack(list(each)) for each in saved]), torch.stack(rewards).t()
    right = (torch.stack([each.flatten() for each in saved], dim=1) * stacked).sum()
    return tuple((-probs * stacked).shape), bool((probs * stacked).sum() == right)


@shows("S2.29", gives={0.0: True, 0.6: False})
def same_scores_in_both_modes() -> dict[float, bool]:
    """Return by dropout whether a batch of three states gets what the three get one by one, up to one rounding."""
    return {p: same_scores(p) for p in (0.0, 0.6)}


def same_scores(p: float) -> bool:
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(4, 128), nn.Dropout(p), nn.ReLU(), nn.Linear(128, 2), nn.Softmax(dim=-1))
    states = torch.rand(3, 1, 4)
    torch.manual_seed(1)
    together = policy(states)
    torch.manual_seed(1)
    singly = [draw_after(policy(state)) for state in states]
    return bool((together - torch.stack(singly)).abs().max() <= torch.finfo(torch.float32).eps)


def draw_after(probs: torch.Tensor) -> torch.Tensor:
    """Draw an action, as without batching: each observer's action is drawn before the next one's mask."""
    Categorical(probs).sample()
    return probs


class Agent:
    """The published batching, on a policy that notes its states."""

    def __init__(self, observers: int) -> None:
        self.observers = observers
        self.lock = threading.Lock()
        self.future_actions: Future = torch.futures.Future()
        self.pending_states = observers
        self.states = torch.zeros(observers, 1, 1)
        self.seen: list[list[float]] = []

    def policy(self, states: torch.Tensor) -> torch.Tensor:
        self.seen.append(states.flatten().tolist())
        return states

    @staticmethod
    @rpc.functions.async_execution  # type: ignore[untyped-decorator]
    def select_action_batch(agent_rref: RRef[Any], ob_id: int, state: torch.Tensor) -> Future:
        self = agent_rref.local_value()
        self.states[ob_id].copy_(state)
        future_action: Future = self.future_actions.then(lambda actions: actions.wait()[ob_id].item())
        with self.lock:
            self.pending_states -= 1
            if self.pending_states == 0:
                self.pending_states = self.observers
                actions = self.policy(self.states)
                future_actions = self.future_actions
                self.future_actions = torch.futures.Future()
                future_actions.set_result(actions)
        return future_action


def select(agent: Agent, ob_id: int, state: float) -> Future:
    method: Any = Agent.select_action_batch
    future: Future = method(RRef(agent), ob_id, torch.full((1, 1), state))
    return future


@shows("S2.31", gives={"states": [[7.0, 0.0]], "answered": [True, True, False]})
def an_observer_that_calls_twice() -> dict[str, object]:
    """Return what the policy saw of observers 0 and 1, and which of three calls were answered: 0's two, then 1's."""
    agent = Agent(2)
    calls = [select(agent, 0, 5.0), select(agent, 0, 7.0), select(agent, 1, 9.0)]
    return {"states": agent.seen, "answered": [call.done() for call in calls]}


@shows("S2.32", gives=[True])
def answers_under_the_lock() -> list[bool]:
    """Return whether the lock was held while the waiting observer's answer was made."""
    agent, held = Agent(2), []
    select(agent, 0, 1.0).then(lambda action: held.append(agent.lock.locked()))
    select(agent, 1, 1.0)
    return held
