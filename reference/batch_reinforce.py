"""Train one agent with many observers of CartPole: it runs its policy once for all their states, or once for each.

Source: seed 002, second half (batch-processing CartPole solver).

Roles: ``agent`` holds the policy, starts every episode and returns the trace; ``observer1`` … hold one environment
each. An observer sends its state at every step and gets an action as the reply of that same call. With ``batch`` the
call returns a future: the last observer to arrive runs the policy on all states at once. Without, each call runs it on
its own. An episode is ``n_steps`` steps of every observer, over as many starts of its environment as that takes.

One layout in both modes: rewards, actions and log-probabilities are (step, observer), (n_steps, observers), and so
is the loss before it is summed. In the published form without batching, log-probabilities are (observer, step, 1), so
that the product with rewards broadcasts: everybody's actions are rewarded with everybody's rewards (S2.27).

Observer i's action at step s, and its dropout mask, come from a generator of its own (`cartpole.ObserverRng`): the
order in which observers arrive decides nothing, and with dropout off both modes compute the same (S2.29).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import torch
import torch.distributed.rpc as rpc
import torch.nn.functional as F
from torch import nn, optim

from reference.roles import Roles, numbered
from reference.rpc.barrier import Barrier, RoundFailed
from reference.rpc.handle import Handle, handle_of
from reference.rpc.liveness import FAREWELL_SECONDS, Liveness, ParticipantFailed, gather
from reference.rpc.once import Once
from reference.trace.case import flag, number, text
from reference.trace.trace import Recorder, Trace
from reference.training.cartpole import (
    HIDDEN,
    ObserverRngs,
    discounted,
    pick,
    require_environment,
    seeded_environment,
    sizes_of,
)
from reference.training.rng import build_seeded
from reference.training.threads import one_thread
from reference.training.training_case import TrainingCase

State = np.ndarray[Any, Any]

# --- the lesson: policy, observer and agent ---


class Policy(nn.Module):
    """Scores of actions, as probabilities. Dropout's factors are drawn by observer, so they come as an argument."""

    def __init__(self, inputs: int, actions: int, batch: bool = True) -> None:
        super().__init__()
        self.affine1 = nn.Linear(inputs, HIDDEN)
        self.affine2 = nn.Linear(HIDDEN, actions)
        self.dim = 2 if batch else 1

    def forward(self, x: torch.Tensor, dropout_mask: torch.Tensor | None = None) -> torch.Tensor:
        """States (observers, 1, inputs), or (1, inputs) of one; ``dropout_mask`` alike with HIDDEN as its last size."""
        x = self.affine1(x)
        if dropout_mask is not None:
            x = x * dropout_mask
        x = F.relu(x)
        action_scores = self.affine2(x)
        return F.softmax(action_scores, dim=self.dim)


class Observer:
    """Runs on each observer; the agent makes it there."""

    def __init__(self, case: Case, name: str) -> None:
        self.case = case
        self.id = observer_names(case).index(name)
        self.env = seeded_environment(case.env, case.seed, name)  # the only seed; resets go on from it (S2.24)
        self.select_action: Callable[..., Any] = Agent.select_action_batch if case.batch else Agent.select_action
        self.episodes = Once[tuple[torch.Tensor, int]]()

    def run_episode(self, agent_rref: Handle, episode: int, n_steps: int) -> tuple[torch.Tensor, int]:
        """Discounted rewards (n_steps,), and the length of the first start.

        ``episode`` counts from 1: a call that arrives twice plays once, and is answered alike.

        Raises:
            RuntimeError: the agent refused or failed, or is gone.
        """
        return self.episodes.run(episode, lambda: self._play(agent_rref, n_steps))

    def _play(self, agent_rref: Handle, n_steps: int) -> tuple[torch.Tensor, int]:
        (state, _), ep_reward, owner = self.env.reset(), n_steps, agent_rref.owner()  # S2.30: not a constant
        limit = self.case.reply_timeout
        rewards: list[float] = []
        start_step = 0
        for step in range(n_steps):
            action = rpc.rpc_sync(owner, self.select_action, args=(agent_rref, self.id, state), timeout=limit)
            state, reward, terminated, truncated, _ = self.env.step(action)  # five values (0.9)
            rewards.append(float(reward))
            if terminated or truncated or step + 1 >= n_steps:
                rewards[start_step:] = discounted(rewards[start_step:], self.case.gamma)
                state, _ = self.env.reset()
                if start_step == 0:
                    ep_reward = step + 1
                start_step = step + 1
        return torch.tensor(rewards, dtype=self.case.torch_dtype), ep_reward


class AgentFailed(RoundFailed):
    """An episode that cannot be completed. Says why, and whom it lacks."""

    unit, member, twice = "step", "observer", "calls twice in one step"

    @classmethod
    def of(cls, number: int, reason: str) -> AgentFailed:
        return cls(reason)  # of the episode: in which step it was does not matter


class Agent:
    """Runs on ``agent``; its static methods are called by observers, in the agent's one RPC thread.

    Only one: autograd numbers the operations of a graph by thread, and in that order a backward pass adds.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.observers = observer_names(case)
        self.ob_rrefs = {name: rpc.remote(name, Observer, args=(case, name)) for name in self.observers}
        self.agent_rref = handle_of(self)
        self.policy = initial_policy(case)
        self.optimizer = optim.Adam(self.policy.parameters(), lr=case.lr)
        self.running_reward = 0.0
        self.dtype = case.torch_dtype
        self.chances = ObserverRngs(case.seed, self.observers, case.dropout, self.dtype)
        self.states = np.zeros((case.observers, 1, sizes_of(case.env)[0]), dtype=case.dtype)
        self.lock = threading.Lock()
        self.liveness = Liveness(self.observers, case.timeout)
        self.episode = 0

    @staticmethod
    def select_action(agent_rref: Handle, ob_id: int, state: State) -> int:
        """The action for one observer's state, (inputs,). Called by that observer.

        Raises:
            AgentFailed: the episode has failed already, or the policy did.
        """
        self = agent_rref.local_value()
        self.liveness.heartbeat(self.observers[ob_id])
        step = len(self.saved_log_probs[ob_id])
        actions, log_probs = self.act(torch.tensor(state[np.newaxis], dtype=self.dtype), step, ob_id)
        self.saved_log_probs[ob_id].append(log_probs[0])
        self.saved_actions[ob_id].append(actions[0])
        return actions[0]  # type: ignore[no-any-return]

    @staticmethod
    @rpc.functions.async_execution  # type: ignore[untyped-decorator]
    def select_action_batch(agent_rref: Handle, ob_id: int, state: State) -> torch.futures.Future[int]:
        """The same with one forward pass for all: a future for each observer, which the last to come completes.

        Raises:
            AgentFailed: an observer calls twice in a step, is missing or failed, or the policy did.
        """
        self = agent_rref.local_value()
        with self.lock:
            future_action, last = self.steps.join(self.observers[ob_id], pick=itemgetter(ob_id))  # S2.31
            self.states[ob_id, 0] = state
            if last:
                states = torch.tensor(self.states)  # a copy: the graph keeps it, and the next step overwrites (S2.26)
                actions, log_probs = self.act(states, len(self.saved_log_probs[0]))
                self.saved_log_probs[0].append(log_probs)
                self.saved_actions[0].append(actions)
        if last:
            # Outside the lock: this makes every waiting observer's reply (S2.32).
            self.steps.complete(actions)
        return future_action  # type: ignore[no-any-return]

    def act(self, states: torch.Tensor, step: int, observer: int | None = None) -> tuple[list[int], torch.Tensor]:
        """One observer's action, or all observers'; if the policy fails, it fails for everybody (S2.33)."""
        if self.steps.failure is not None:
            raise self.steps.failure
        dropout_mask, uniforms = self.chances.dropout_mask_at(step, observer), self.chances.uniforms_at(step, observer)
        try:
            return act(self.policy, states, dropout_mask, uniforms)
        except Exception as error:  # not the observer's fault, whose call it is
            raise self.steps.fail(f"the policy failed: {type(error).__name__}: {error}") from error

    def run_episode(self, n_steps: int) -> Episode:
        """One episode of all observers, and the update of the policy from it.

        Raises:
            AgentFailed: the policy failed, or an observer failed, called twice or was silent. Says which.
        """
        with closing(self.begin(n_steps)) as steps:
            futs = {
                # Without a limit of its own, the default being 60 s (S2.34): silence has one.
                name: ob_rref.rpc_async(timeout=0).run_episode(self.agent_rref, self.episode, n_steps)
                for name, ob_rref in self.ob_rrefs.items()
            }
            steps.note_ends(futs)
            wait = partial(gather, failed=steps.failed) if self.case.batch else self.liveness.gather
            try:
                rets = wait(futs, steps.fail, stay=FAREWELL_SECONDS).values()
            except ParticipantFailed as error:
                raise steps.fail(str(error)) from error
        rewards = torch.stack([returns for returns, _ in rets], dim=1)
        return self.finish_episode(rewards, sum(ep_reward for _, ep_reward in rets) / len(rets))

    def begin(self, n_steps: int) -> Barrier[list[int]]:
        """Nothing saved: one list in batch mode, where an entry is all observers'; otherwise one for each."""
        lists = 1 if self.case.batch else len(self.observers)
        self.saved_log_probs: list[list[torch.Tensor]] = [[] for _ in range(lists)]
        self.saved_actions: list[list[Any]] = [[] for _ in range(lists)]
        self.episode += 1
        self.chances.draw(n_steps)
        limit = self.case.timeout if self.case.batch else math.inf  # unbatched, no observer waits for another
        self.steps: Barrier[list[int]] = Barrier(self.observers, n_steps, limit, AgentFailed)
        return self.steps

    def finish_episode(self, rewards: torch.Tensor, ep_reward: float) -> Episode:
        """One policy gradient from ``rewards``, (step, observer); ``ep_reward`` is the mean over observers."""
        actions, log_probs, losses = columns_of(self.case, self.saved_actions, self.saved_log_probs, rewards)
        self.optimizer.zero_grad()
        for loss in losses:
            loss.backward()
        self.optimizer.step()
        self.running_reward = 0.5 * ep_reward + 0.5 * self.running_reward
        total = torch.stack(losses).sum()
        return Episode(actions, rewards, log_probs.detach(), total.detach(), ep_reward, self.running_reward)


def columns_of(
    case: Case, saved_actions: list[list[Any]], saved_log_probs: list[list[torch.Tensor]], rewards: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
    """Actions and log-probabilities, both (step, observer) in both modes (S2.27); and the losses of one episode.

    Without batching a loss is one observer's: their calls came in any order, which must not be the order of sums.
    """
    columns = [torch.stack(each) for each in saved_log_probs]
    if case.batch:
        return torch.tensor(saved_actions[0]), columns[0], [policy_loss(columns[0], rewards, case.observers)]
    losses = [policy_loss(column, rewards[:, i], case.observers) for i, column in enumerate(columns)]
    return torch.tensor(saved_actions).t(), torch.stack(columns, dim=1), losses


def act(
    policy: nn.Module, states: torch.Tensor, dropout_mask: torch.Tensor | None, uniforms: Sequence[float]
) -> tuple[list[int], torch.Tensor]:
    """One action for each of the states, and their log-probabilities (states,)."""
    probs = policy(states, dropout_mask).flatten(end_dim=-2)
    actions = [pick(row, uniform) for row, uniform in zip(probs.tolist(), uniforms, strict=True)]
    return actions, probs.gather(1, torch.tensor(actions).unsqueeze(1)).squeeze(1).log()


def policy_loss(log_probs: torch.Tensor, rewards: torch.Tensor, observers: int) -> torch.Tensor:
    """Both (step, observer), or both (step,) of one of the ``observers``."""
    return (-log_probs * rewards / observers).sum()


@dataclass(frozen=True)
class Episode:
    """What one episode was, and what the policy learnt from it. The first three are (n_steps, observers)."""

    actions: torch.Tensor
    rewards: torch.Tensor
    log_probs: torch.Tensor
    loss: torch.Tensor
    ep_reward: float
    running_reward: float

    def record(self, recorder: Recorder, episode: int, policy: nn.Module) -> None:
        """Put it into the trace; ``record="ends"`` keeps the loss, the two averages and the actions: two runs that act
        otherwise are not two roundings of one result."""
        averages = {"episode": self.ep_reward, "running": self.running_reward}
        recorder.put(f"{episode:04d}/reward", {n: torch.tensor(a, dtype=torch.float64) for n, a in averages.items()})
        steps = {"actions": self.actions}
        if recorder.case.record == "every":
            steps |= {"rewards": self.rewards, "log_probs": self.log_probs}
        recorder.put(f"{episode:04d}/steps", steps)
        recorder.step(episode, {"policy": self.loss}, policy)


# --- the roles ---


def run_agent(case: Case) -> Trace:
    """Runs on ``agent``.

    Raises:
        AgentFailed: as `Agent.run_episode`.
    """
    agent = Agent(case)
    recorder = Recorder(case, agent.policy)
    for episode in range(case.steps):
        agent.run_episode(case.n_steps).record(recorder, episode, agent.policy)
    return recorder.trace()


def roles(case: Case) -> Roles:
    one_thread_each = {"agent": {"num_worker_threads": 1}}
    return Roles({"agent": partial(run_agent, case)}, each=one_thread_each, serving=observer_names(case))


# --- the case, and what it determines ---


@dataclass(frozen=True)
class Case(TrainingCase):
    """The tutorial's numbers; its main() tries 1 to 10 observers, and 2 are the fewest that make a batch."""

    seed: int = number(543, "seed of every random draw", at_least=0, at_most=2**63 - 1)
    steps: int = number(10, "episodes: updates of the policy", at_least=1, at_most=9999)
    observers: int = number(2, "observers, each with an environment of its own", at_least=1, at_most=255, scales=True)
    batch: bool = flag(True, "one forward pass for all observers' states; else one for each")
    n_steps: int = number(500, "steps of every observer in an episode", at_least=1, at_most=65536)
    env: str = text("CartPole-v1", "gymnasium's name of the environment")
    gamma: float = number(1.0, "discount factor of rewards", at_least=0.0, at_most=1.0)
    lr: float = number(0.01, "learning rate of Adam", at_least=0.0)
    dropout: float = number(0.6, "probability that a hidden unit is dropped", at_least=0.0, at_most=0.99)

    def validate(self) -> None:
        require_environment(self, self.env)


def observer_names(case: Case) -> list[str]:
    """The observers in rank order."""
    return numbered("observer", case.observers)


def initial_policy(case: Case) -> Policy:
    """What the agent starts from."""
    sizes = sizes_of(case.env)
    return build_seeded(Policy, *sizes, batch=case.batch, seed=case.seed, name="policy", dtype=case.dtype)


# --- the twin: the same in one process ---


@one_thread()
def train_locally(case: Case, replay: Trace | None = None) -> Trace:
    """Let all environments step together."""
    policy, names = initial_policy(case), observer_names(case)
    chances = ObserverRngs(case.seed, names, case.dropout, case.torch_dtype)
    optimizer = optim.Adam(policy.parameters(), lr=case.lr)
    recorder = Recorder(case, policy)
    games = [Game(case, name) for name in names]
    running_reward = 0.0
    for episode in range(case.steps):
        chances.draw(case.n_steps)
        saved = play_locally(case, policy, games, chances)
        rewards = torch.tensor([game.returns() for game in games], dtype=case.torch_dtype).t()
        actions, log_probs, losses = columns_of(case, *saved, rewards)
        optimizer.zero_grad()
        for loss in losses:
            loss.backward()
        optimizer.step()
        ep_reward = sum(len(game.starts[0]) for game in games) / len(games)
        running_reward = 0.5 * ep_reward + 0.5 * running_reward
        total = torch.stack(losses).sum().detach()
        done = Episode(actions, rewards, log_probs.detach(), total, ep_reward, running_reward)
        done.record(recorder, episode, policy)
    return recorder.trace()


class Game:
    """One environment in the twin. ``starts`` are one episode's rewards, a list for each start."""

    def __init__(self, case: Case, name: str) -> None:
        self.gamma = case.gamma
        self.env = seeded_environment(case.env, case.seed, name)

    def begin(self) -> None:
        self.state, _ = self.env.reset()
        self.starts: list[list[float]] = [[]]

    def step(self, action: int, last: bool) -> None:
        self.state, reward, terminated, truncated, _ = self.env.step(action)
        self.starts[-1].append(float(reward))
        if terminated or truncated or last:
            self.state, _ = self.env.reset()
            self.starts.append([])

    def returns(self) -> list[float]:
        return [value for start in self.starts for value in discounted(start, self.gamma)]


def play_locally(
    case: Case, policy: Policy, games: Sequence[Game], chances: ObserverRngs
) -> tuple[list[list[Any]], list[list[torch.Tensor]]]:
    """One episode: actions and log-probabilities, in lists as the agent saves them."""
    places: list[int | None] = [None] if case.batch else [*range(case.observers)]
    saved_actions: list[list[Any]] = [[] for _ in places]
    saved_log_probs: list[list[torch.Tensor]] = [[] for _ in places]
    for game in games:
        game.begin()
    for step in range(case.n_steps):
        states = torch.stack([torch.tensor(game.state, dtype=case.torch_dtype) for game in games]).unsqueeze(1)
        taken: list[int] = []
        for saved, log_probs_of, observer in zip(saved_actions, saved_log_probs, places, strict=True):
            dropout_mask, uniforms = chances.dropout_mask_at(step, observer), chances.uniforms_at(step, observer)
            actions, log_probs = act(policy, states if observer is None else states[observer], dropout_mask, uniforms)
            saved.append(actions if case.batch else actions[0])
            log_probs_of.append(log_probs if case.batch else log_probs[0])
            taken += actions
        for game, action in zip(games, taken, strict=True):
            game.step(action, last=step + 1 == case.n_steps)
    return saved_actions, saved_log_probs
