"""Train CartPole's policy with one agent and several observers; an episode lasts until the pole falls.

Source: seed 000, section 2 (distributed reinforcement learning), whose agent methods are empty (S0.8). Their bodies
follow the prose, and the upstream example where the prose says nothing.

Roles: ``agent`` holds the policy, makes an observer with an environment on each ``observer1`` …, starts every episode
and returns the trace. At each step an observer asks the agent for an action and then reports its reward. After the
episode the agent updates its policy once, from the returns of all observers. They are discounted for each observer by
itself, never across observers, and then normalised together to mean 0 and variance 1.

For each episode the trace has every observer's actions, log-probabilities and rewards, (its steps,) each; the loss,
the gradients and the parameters; and ``reward``: the worst observer's sum and its running average, in which the newest
counts 5 %.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import torch
import torch.distributed.rpc as rpc
import torch.nn.functional as F
from torch import nn, optim
from torch.distributed.rpc import RRef

from reference.roles import Roles, numbered
from reference.rpc.remote_method import _call_method
from reference.rpc.waiting import Liveness
from reference.trace import checkpoint
from reference.trace.case import number_field, text_field
from reference.trace.recorder import Recorder
from reference.trace.trace import Trace
from reference.training import cartpole
from reference.training.cartpole import Record
from reference.training.cartpole import goal as goal  # `verify --long` asks for it
from reference.training.gradients import backward_in_order
from reference.training.placement import one_thread
from reference.training.rng import build_seeded
from reference.training.training_case import TrainingCase

# --- The lesson: policy, observer and agent --------------------------------------------------------------------------


class Policy(nn.Module):
    """Computes probabilities of actions. Dropout's factors are an argument, because each observer has its own."""

    def __init__(self, inputs: int, actions: int) -> None:
        super().__init__()
        self.affine1 = nn.Linear(inputs, cartpole.HIDDEN)
        self.affine2 = nn.Linear(cartpole.HIDDEN, actions)

    def forward(self, x: torch.Tensor, dropout_mask: torch.Tensor | None = None) -> torch.Tensor:
        """``x`` is (1, inputs), or a batch (observers, inputs); ``dropout_mask`` is None if nothing is dropped."""
        x = self.affine1(x)
        if dropout_mask is not None:
            x = x * dropout_mask
        x = F.relu(x)
        action_scores = self.affine2(x)
        return F.softmax(action_scores, dim=-1)


class Observer:
    """Runs on each observer, where the agent makes it: has an environment and plays episodes."""

    def __init__(self, case: Case, rank: int) -> None:
        self.case = case
        self.rank = rank
        self.env = cartpole.seeded_environment(case.env, case.seed, f"observer{rank}")
        checkpoint.resume(resets=cartpole.Resets(self.env))

    def save(self, step: int) -> None:
        """Save what decides this observer's episodes after the first ``step``. The agent calls it."""
        checkpoint.save(step, resets=cartpole.Resets(self.env))

    def run_episode(self, agent_rref: RRef[Any], n_steps: int) -> None:
        """Act until the environment ends or for ``n_steps`` steps, and report every reward to the agent.

        Raises:
            RuntimeError: the agent failed or is gone.
        """
        # Both methods take the observer's rank, by which the agent knows who calls (S0.10, S0.11).
        call_agent = partial(rpc.rpc_sync, agent_rref.owner(), _call_method, timeout=self.case.timeout)
        state, _ = self.env.reset()  # two values (0.8)
        for _ in range(n_steps):
            action = call_agent(args=(Agent.select_action, agent_rref, self.rank, state))
            state, reward, terminated, truncated, _ = self.env.step(action)  # five values (0.9)
            call_agent(args=(Agent.report_reward, agent_rref, self.rank, float(reward)))
            if terminated or truncated:
                break


class Agent(cartpole.Learner):
    """Runs on ``agent``, which has a single RPC thread, so observers' calls run one at a time.

    There is only one thread, because autograd numbers a graph's operations by thread, and a backward pass adds in the
    order of these numbers.
    """

    policy: Policy

    def __init__(self, case: Case) -> None:
        self.case = case
        self.observers = numbered("observer", case.observers)
        self.ob_rrefs = {
            name: rpc.remote(name, Observer, args=(case, rank)) for rank, name in enumerate(self.observers, start=1)
        }
        self.rngs = [cartpole.ObserverRng(case, name) for name in self.observers]
        self.policy = initial_policy(case)
        self.optimizer = optim.Adam(self.policy.parameters(), lr=case.lr)
        self.running_reward = 0.0
        self.records: dict[str, Record] = {}

    def select_action(self, ob_id: int, state: np.ndarray[Any, Any]) -> int:
        """Choose the action for the state (inputs,) of the observer with rank ``ob_id``, which calls this."""
        record = self._heard(ob_id)
        try:
            return act(self.policy, state, record)
        except Exception as error:  # the agent's fault, although an observer's call fails
            raise RuntimeError(f"the policy failed: {type(error).__name__}: {error}") from error

    def report_reward(self, ob_id: int, reward: float) -> None:
        """Take the reward of that observer's last action; it calls this."""
        self._heard(ob_id).rewards.append(reward)

    def _heard(self, ob_id: int) -> Record:
        """Note that an observer has called, and return its record."""
        name = self.observers[ob_id - 1]
        self.liveness.heartbeat(name)
        return self.records[name]

    def run_episode(self, n_steps: int) -> None:
        """Let all observers play an episode at once.

        Raises:
            ParticipantFailed: an observer failed or was silent, or the policy failed in its call. Says which observer.
        """
        draws = zip(self.observers, self.rngs, strict=True)
        self.records = {name: Record(rng.episode(n_steps)) for name, rng in draws}
        self.liveness = Liveness(self.observers, self.case.timeout)
        agent_rref: RRef[Any] = RRef(self)
        futs = {}
        for name, ob_rref in self.ob_rrefs.items():
            args = (Observer.run_episode, ob_rref, agent_rref, n_steps)
            # The call itself has no timeout, because silence has one.
            futs[name] = rpc.rpc_async(ob_rref.owner(), _call_method, args=args, timeout=0)
        self.liveness.gather(futs)

    def finish_episode(self) -> tuple[float, torch.Tensor]:
        """Update the policy from all observers' records. Returns the worst observer's sum of rewards, and the loss."""
        self.optimizer.zero_grad()
        loss = backward_in_order(losses_of(self.case, self.records.values()))
        self.optimizer.step()
        min_reward = min(sum(record.rewards) for record in self.records.values())
        self.running_reward = 0.05 * min_reward + (1 - 0.05) * self.running_reward
        return min_reward, loss

    def save(self, step: int, recorder: Recorder) -> None:
        """Save what decides the episodes after the first ``step``, with all observers."""
        if checkpoint.due(step):
            calls = [
                rpc.rpc_async(rref.owner(), _call_method, args=(Observer.save, rref, step), timeout=self.case.timeout)
                for rref in self.ob_rrefs.values()
            ]
            torch.futures.wait_all(calls)
            checkpoint.save(step, agent=self, trace=recorder)


def initial_policy(case: Case) -> Policy:
    """Build the policy with which the agent and the twin start."""
    return build_seeded(Policy, *cartpole.sizes_of(case.env), seed=case.seed, name="policy", dtype=case.dtype)


def act(policy: Policy, state: np.ndarray[Any, Any], record: Record) -> int:
    """Choose one observer's next action, and record it with its log-probability (S0.12)."""
    step = len(record.actions)
    dropout_mask = None if record.draws.dropout_mask is None else record.draws.dropout_mask[step]
    probs = policy(torch.from_numpy(state).to(policy.affine1.weight.dtype).unsqueeze(0), dropout_mask)
    action = cartpole.pick(probs[0].tolist(), float(record.draws.uniforms[step]))
    record.actions.append(action)
    record.log_probs.append(probs[:, action].log())
    return action


def losses_of(case: Case, records: Collection[Record]) -> list[torch.Tensor]:
    """Compute each observer's loss."""
    rewards = [cartpole.discounted(record.rewards, case.gamma) for record in records]
    returns = cartpole.normalized(rewards, case.torch_dtype)
    return [(-torch.cat(record.log_probs) * each).sum() for record, each in zip(records, returns, strict=True)]


# --- Roles and Case --------------------------------------------------------------------------------------------------


def run_agent(case: Case) -> Trace:
    """Run role ``agent``: train for all episodes. Raises ParticipantFailed, as `Agent.run_episode` does."""
    agent = Agent(case)
    recorder = Recorder(case, agent.policy)
    for episode in range(checkpoint.resume(agent=agent, trace=recorder), case.steps):
        agent.run_episode(case.n_steps)
        reward, loss = agent.finish_episode()
        record_episode(recorder, episode, agent.records)
        cartpole.record_reward(recorder, episode, reward, agent.running_reward)
        recorder.step(episode, {"policy": loss}, agent.policy)
        agent.save(episode + 1, recorder)
    return recorder.trace()


def record_episode(recorder: Recorder, episode: int, records: Mapping[str, Record]) -> None:
    """Put each observer's actions, log-probabilities and rewards into the trace."""
    # Recorded in "ends", too: runs with different actions are not two roundings of one result.
    recorder.put(f"{episode:04d}/actions", {name: torch.tensor(each.actions) for name, each in records.items()})
    if recorder.every:
        given = {name: torch.tensor(each.rewards, dtype=torch.float64) for name, each in records.items()}
        recorder.put(f"{episode:04d}/rewards", given)
        chosen = {name: torch.cat(each.log_probs) for name, each in records.items()}
        recorder.put(f"{episode:04d}/log_probs", chosen)


def roles(case: Case) -> Roles:
    options = {"agent": {"num_worker_threads": 1}}
    return Roles({"agent": partial(run_agent, case)}, each=options, serving=numbered("observer", case.observers))


@dataclass(frozen=True)
class Case(TrainingCase):
    """The tutorial's numbers, except its 10 steps: with those every reward is 10, and nothing is learnt (S0.13)."""

    steps: int = number_field(100, "number of episodes, each with one update of the policy", at_least=1, at_most=9999)
    observers: int = number_field(
        1, "number of observers, each with its own environment", at_least=1, at_most=255, scales=True
    )
    n_steps: int = number_field(500, "the most steps of an episode", at_least=1, at_most=65536)
    env: str = text_field("CartPole-v1", "name of the gymnasium environment")
    gamma: float = number_field(0.99, "discount factor of rewards", at_least=0.0, at_most=1.0)
    lr: float = number_field(0.01, "learning rate of Adam", at_least=0.0)
    dropout: float = number_field(0.6, "probability that a hidden unit is dropped", at_least=0.0, at_most=0.99)

    def validate(self) -> None:
        try:
            cartpole.sizes_of(self.env)
        except ValueError as error:
            self.require(False, "env", f"a gymnasium environment with a vector as state and numbered actions ({error})")


# --- The twin: the same in one process -------------------------------------------------------------------------------


@one_thread()
def train_locally(case: Case, replay: Trace | None = None) -> Trace:
    """The twin: play one observer's episode after the other, then update once."""
    policy = initial_policy(case)
    optimizer = optim.Adam(policy.parameters(), lr=case.lr)
    recorder = Recorder(case, policy)
    names = numbered("observer", case.observers)
    rngs = {name: cartpole.ObserverRng(case, name) for name in names}
    environments = {name: cartpole.seeded_environment(case.env, case.seed, name) for name in names}
    running = 0.0
    for episode in range(case.steps):
        records = {name: Record(rng.episode(case.n_steps)) for name, rng in rngs.items()}
        for name, record in records.items():
            with recorder.outputs(episode, name, policy):
                play_locally(case, environments[name], policy, record)
        optimizer.zero_grad()
        loss = backward_in_order(losses_of(case, records.values()))
        recorder.before_update(episode, policy)
        optimizer.step()
        worst = min(sum(record.rewards) for record in records.values())
        running = 0.05 * worst + 0.95 * running
        record_episode(recorder, episode, records)
        cartpole.record_reward(recorder, episode, worst, running)
        recorder.step(episode, {"policy": loss}, policy)
    return recorder.trace()


def play_locally(case: Case, env: gymnasium.Env[Any, Any], policy: Policy, record: Record) -> None:
    """Play one observer's episode."""
    state, _ = env.reset()
    for _ in range(case.n_steps):
        state, reward, terminated, truncated, _ = env.step(act(policy, state, record))
        record.rewards.append(float(reward))
        if terminated or truncated:
            break
