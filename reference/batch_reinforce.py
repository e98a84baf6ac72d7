"""Train one agent with many observers of CartPole: it runs its policy once for all their states, or once for each.

Source: seed 002, second half (batch-processing CartPole solver). ``python -m reference run batch_reinforce
--compare-batching`` prints the table of its ``main`` (S2.20).

Roles: ``agent`` holds the policy, starts every episode and returns the trace; ``observer1`` … hold one environment
each. An observer sends its state at every step, and the reply of that call is its action. With ``batch`` the call
returns a future: the last observer to call runs the policy on all states at once. Otherwise each call runs the policy.
An episode is ``n_steps`` steps of every observer, over as many starts of its environment as that takes.

Rewards, actions and log-probabilities are (step, observer) in both modes. Published without batching, log-probabilities
are (observer, step, 1): their product with rewards broadcasts, and every action is rewarded with all observers'
rewards (S2.27). Each observer's actions and dropout masks come from a generator of its own (`cartpole.ObserverRng`), so
the order of their calls decides nothing, and both modes agree within rounding, with dropout too (S2.29).
"""

from __future__ import annotations

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
from torch import nn, optim

from reference import reinforce
from reference.reinforce import Policy, initial_policy
from reference.roles import Roles, numbered
from reference.rpc.handle import Handle, handle_of
from reference.rpc.rounds import RoundFailed, Rounds
from reference.trace import checkpoint
from reference.trace.case import flag_field, number_field
from reference.trace.recorder import Recorder
from reference.trace.trace import Trace
from reference.training import cartpole
from reference.training.batch_episode import Game, SavedActions
from reference.training.gradients import backward_in_order
from reference.training.placement import one_thread

# --- The lesson: observer and agent, which has the policy of `reinforce` ---------------------------------------------


class Observer:
    """Runs on each observer, where the agent makes it."""

    def __init__(self, case: Case, name: str) -> None:
        self.case = case
        self.id = numbered("observer", case.observers).index(name)
        self.env = cartpole.seeded_environment(case.env, case.seed, name)  # the only seed; resets go on from it (S2.24)
        self.select_action: Callable[..., Any] = Agent.select_action_batch if case.batch else Agent.select_action
        checkpoint.resume(resets=cartpole.Resets(self.env))

    def save(self, step: int) -> None:
        """Save what decides this observer's episodes after the first ``step``. The agent calls it."""
        checkpoint.save(step, resets=cartpole.Resets(self.env))

    def run_episode(self, agent_rref: Handle, n_steps: int) -> tuple[torch.Tensor, int]:
        """Play one episode. Returns discounted rewards (n_steps,), and the length of the first start.

        Raises:
            RuntimeError: the agent refused or failed, or is gone.
        """
        owner, limit = agent_rref.owner(), self.case.reply_timeout
        (state, _), ep_reward = self.env.reset(), n_steps  # S2.30: not a constant
        rewards: list[float] = []
        start_step = 0
        for step in range(n_steps):
            action = rpc.rpc_sync(owner, self.select_action, args=(agent_rref, self.id, state), timeout=limit)
            state, reward, terminated, truncated, _ = self.env.step(action)  # five values (0.9)
            rewards.append(float(reward))
            if terminated or truncated or step + 1 >= n_steps:
                rewards[start_step:] = cartpole.discounted(rewards[start_step:], self.case.gamma)
                state, _ = self.env.reset()
                if start_step == 0:
                    ep_reward = step + 1
                start_step = step + 1
        return torch.tensor(rewards, dtype=self.case.torch_dtype), ep_reward


class AgentFailed(RoundFailed):
    """An episode that cannot be completed. Says why, and whom it lacks, but not in which step."""

    unit, member, twice = "step", "observer", "calls twice in one step"

    @classmethod
    def of(cls, number: int, reason: str) -> AgentFailed:
        return cls(reason)


class Agent(cartpole.Learner):
    """Runs on ``agent``; observers call its static methods, in the agent's one RPC thread.

    There is only one, because autograd numbers the operations of a graph by thread, and a backward pass adds in that
    order.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.observers = numbered("observer", case.observers)
        self.ob_rrefs = {name: rpc.remote(name, Observer, args=(case, name)) for name in self.observers}
        self.agent_rref = handle_of(self)  # lighter than RRef(self), which at each step costs further messages
        self.policy = initial_policy(case)
        self.optimizer = optim.Adam(self.policy.parameters(), lr=case.lr)
        self.running_reward = 0.0
        self.rngs = [cartpole.ObserverRng(case, name) for name in self.observers]
        self.states = np.zeros((case.observers, cartpole.sizes_of(case.env)[0]), dtype=case.dtype)
        self.lock = threading.Lock()

    @staticmethod
    def select_action(agent_rref: Handle, ob_id: int, state: np.ndarray[Any, Any]) -> int:
        """Run the policy for one observer's state (inputs,), and answer with its action. Called by that observer.

        Raises:
            AgentFailed: the episode has failed already, or the policy did.
        """
        self = agent_rref.local_value()
        self.steps.heartbeat(self.observers[ob_id])
        with self.steps.work("the policy"):  # if it fails, it fails for everybody (S2.33)
            states = torch.tensor(state[np.newaxis], dtype=self.case.torch_dtype)
            (action,) = act(self.policy, states, self.saved, ob_id)
        return action

    @staticmethod
    @rpc.functions.async_execution  # type: ignore[untyped-decorator]
    def select_action_batch(agent_rref: Handle, ob_id: int, state: np.ndarray[Any, Any]) -> torch.futures.Future[int]:
        """Run the policy once for all observers' states: each gets a future, and the last to call completes them.

        Raises:
            AgentFailed: an observer calls twice in a step, is missing or failed, or the policy did.
        """
        self = agent_rref.local_value()
        with self.lock:
            # `join` has what is published as ``pending_states`` and ``future_actions``: this call's future follows that
            # one by ``then``, which picks one observer's action. It refuses a second call in one step (S2.31).
            future_action, last = self.steps.join(self.observers[ob_id], pick=itemgetter(ob_id))
            self.states[ob_id] = state
            if last:
                with self.steps.work("the policy"):
                    # A copy, because the graph keeps it and the next step overwrites the states (S2.26).
                    states = torch.from_numpy(self.states.copy())
                    actions = act(self.policy, states, self.saved)
        if last:
            # Outside the lock, because this makes every waiting observer's reply (S2.32).
            self.steps.swap_future().set_result(actions)
        return future_action  # type: ignore[no-any-return]

    def run_episode(self, n_steps: int) -> tuple[float, float]:
        """Play one episode with all observers and update the policy. Returns its reward and the running average.

        Raises:
            AgentFailed: the policy failed, or an observer failed, called twice or was silent. Says which.
        """
        self.begin(n_steps)
        with closing(self.steps):
            futs = {
                # Without a limit (the default is 60 s, S2.34), because an observer's silence has one.
                name: ob_rref.rpc_async(timeout=0).run_episode(self.agent_rref, n_steps)
                for name, ob_rref in self.ob_rrefs.items()
            }
            rets = list(self.steps.gather(futs).values())
        self.rewards = torch.stack([rewards for rewards, _ in rets], dim=1)
        self.optimizer.zero_grad()
        self.loss = backward_in_order(losses_of(self.case, self.saved, self.rewards))
        self.optimizer.step()
        ep_reward = sum(ep_reward for _, ep_reward in rets) / len(rets)
        self.running_reward = 0.5 * ep_reward + 0.5 * self.running_reward
        return ep_reward, self.running_reward

    def save(self, step: int, recorder: Recorder) -> None:
        """Save what decides the episodes after the first ``step``, with all observers."""
        if checkpoint.due(step):
            torch.futures.wait_all(
                [ob_rref.rpc_async(timeout=self.case.timeout).save(step) for ob_rref in self.ob_rrefs.values()]
            )
            checkpoint.save(step, agent=self, trace=recorder)

    def begin(self, n_steps: int) -> None:
        """Forget the last episode's steps, and expect the next one's."""
        case = self.case
        self.saved = SavedActions([rng.episode(n_steps) for rng in self.rngs], case.batch)
        self.steps = Rounds[list[int]](self.observers, n_steps, case.timeout, AgentFailed, together=case.batch)


def act(policy: nn.Module, states: torch.Tensor, saved: SavedActions, observer: int | None = None) -> list[int]:
    """Choose the next action of one observer, or of all, and save it with the probabilities of all actions."""
    dropout_mask, uniforms = saved.draws(observer)
    probs = policy(states, dropout_mask)
    actions = [cartpole.pick(row, uniform) for row, uniform in zip(probs.tolist(), uniforms, strict=True)]
    saved.add(actions, probs, observer)
    return actions


def losses_of(case: Case, saved: SavedActions, rewards: torch.Tensor) -> list[torch.Tensor]:
    """Return one loss for all observers, or one each without ``batch`` (S2.27). ``rewards``: (step, observer)."""
    return [(-log_probs * each / case.observers).sum() for log_probs, each in saved.beside(rewards)]


# --- Roles and Case --------------------------------------------------------------------------------------------------


def run_agent(case: Case) -> Trace:
    """Train the policy. Runs on ``agent``. Raises AgentFailed, as `Agent.run_episode` does."""
    agent = Agent(case)
    recorder = Recorder(case, agent.policy)
    for episode in range(checkpoint.resume(agent=agent, trace=recorder), case.steps):
        ep_reward, running_reward = agent.run_episode(case.n_steps)
        agent.saved.record(recorder, episode, agent.rewards)
        cartpole.record_reward(recorder, episode, ep_reward, running_reward)
        recorder.step(episode, {"policy": agent.loss}, agent.policy)
        agent.save(episode + 1, recorder)
    return recorder.trace()


def roles(case: Case) -> Roles:
    options = {"agent": {"num_worker_threads": 1}}
    return Roles({"agent": partial(run_agent, case)}, each=options, serving=numbered("observer", case.observers))


@dataclass(frozen=True)
class Case(reinforce.Case):
    """The tutorial's numbers; its main() tries 1 to 10 observers, and 2 are the fewest that make a batch."""

    seed: int = number_field(543, "seed of every random draw", at_least=0, at_most=2**63 - 1)
    steps: int = number_field(10, "episodes: updates of the policy", at_least=1, at_most=9999)
    observers: int = number_field(
        2, "observers, each with an environment of its own", at_least=1, at_most=255, scales=True
    )
    batch: bool = flag_field(True, "one forward pass for all observers' states; otherwise one per observer")
    n_steps: int = number_field(500, "steps of every observer in an episode", at_least=1, at_most=65536)
    gamma: float = number_field(1.0, "discount factor of rewards", at_least=0.0, at_most=1.0)


# --- The twin: the same in one process -------------------------------------------------------------------------------


@one_thread()
def train_locally(case: Case, replay: Trace | None = None) -> Trace:
    """Train in one process: all environments step together."""
    policy, names = initial_policy(case), numbered("observer", case.observers)
    optimizer = optim.Adam(policy.parameters(), lr=case.lr)
    recorder = Recorder(case, policy)
    rngs = [cartpole.ObserverRng(case, name) for name in names]
    games = [Game(case.env, case.seed, name) for name in names]
    running_reward = 0.0
    for episode in range(case.steps):
        saved = SavedActions([rng.episode(case.n_steps) for rng in rngs], case.batch)
        with recorder.outputs(episode, "agent", policy):
            play_locally(case, policy, games, saved)
        rewards = torch.tensor([game.returns(case.gamma) for game in games], dtype=case.torch_dtype).t()
        optimizer.zero_grad()
        loss = backward_in_order(losses_of(case, saved, rewards))
        recorder.before_update(episode, policy)
        optimizer.step()
        ep_reward = sum(len(game.starts[0]) for game in games) / len(games)
        running_reward = 0.5 * ep_reward + 0.5 * running_reward
        saved.record(recorder, episode, rewards)
        cartpole.record_reward(recorder, episode, ep_reward, running_reward)
        recorder.step(episode, {"policy": loss}, policy)
    return recorder.trace()


def play_locally(case: Case, policy: Policy, games: Sequence[Game], saved: SavedActions) -> None:
    """Play one episode with all observers."""
    for game in games:
        game.begin()
    for step in range(case.n_steps):
        states = torch.tensor(np.stack([game.state for game in games]), dtype=case.torch_dtype)
        if case.batch:
            actions = act(policy, states, saved)
        else:
            actions = [act(policy, state[None], saved, observer)[0] for observer, state in enumerate(states)]
        for game, action in zip(games, actions, strict=True):
            game.step(action, last=step + 1 == case.n_steps)
