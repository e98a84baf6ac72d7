"""Policy gradients with one agent and several observers: an episode lasts until the pole falls.

Source: seed 000, section 2 (distributed reinforcement learning), whose agent methods are empty (S0.8); their bodies
follow the prose, and the upstream example where the text says nothing.

Roles: ``agent`` holds the policy, makes an observer with an environment on each ``observer1`` …, starts every episode
and returns the trace. At each step an observer asks the agent for an action and then reports its reward. After the
episode the agent updates its policy once, from the returns of all observers: discounted for each by itself, never
across them, and brought to mean 0 and variance 1 together.

The trace has by episode, of each observer, actions (its steps,) and rewards (its steps,); the loss, the gradients and
parameters; and ``reward``: the worst observer's sum and its running average, 5 % of the newest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
import torch.distributed.rpc as rpc
import torch.nn.functional as F
from torch import nn, optim
from torch.distributed.rpc import RRef

from reference.roles import Roles
from reference.rpc.liveness import Liveness
from reference.trace.case import number, text
from reference.trace.trace import Recorder, Trace, TraceError
from reference.training.cartpole import (
    HIDDEN,
    Chance,
    Draws,
    discounted,
    environment_seed,
    make_environment,
    observer_names,
    pick,
    require_environment,
    sizes_of,
)
from reference.training.seeding import seed_for
from reference.training.threads import one_thread
from reference.training.training_case import TrainingCase

EPS = torch.finfo(torch.float32).eps  # keeps the division by a deviation of 0 finite


@dataclass(frozen=True)
class Case(TrainingCase):
    """The tutorial's numbers, but not its 10 steps: every episode's reward is 10 then, so nothing is learnt (S0.13)."""

    steps: int = number(100, "episodes: updates of the policy", at_least=1, at_most=9999)
    observers: int = number(1, "observers, each with an environment of its own", at_least=1, at_most=255, scales=True)
    n_steps: int = number(500, "steps after which an episode ends at the latest", at_least=1, at_most=65536)
    env: str = text("CartPole-v1", "gymnasium's name of the environment")
    gamma: float = number(0.99, "discount factor of rewards", at_least=0.0, at_most=1.0)
    lr: float = number(0.01, "learning rate of Adam", at_least=0.0)
    dropout: float = number(0.6, "probability that a hidden unit is dropped", at_least=0.0, at_most=0.99)

    def validate(self) -> None:
        require_environment(self, self.env)


class Policy(nn.Module):
    """Probabilities of actions. Dropout's factors are drawn by observer, so they come as an argument."""

    def __init__(self, inputs: int, actions: int) -> None:
        super().__init__()
        self.affine1 = nn.Linear(inputs, HIDDEN)
        self.affine2 = nn.Linear(HIDDEN, actions)

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        """A state (1, inputs); ``keep`` is (HIDDEN,), None where nothing is dropped."""
        x = self.affine1(x)
        if keep is not None:
            x = x * keep
        x = F.relu(x)
        action_scores = self.affine2(x)
        return F.softmax(action_scores, dim=1)


def initial_policy(case: Case) -> Policy:
    """What the agent starts from, drawn in float32 and then converted."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed_for(case.seed, "policy"))
        policy = Policy(*sizes_of(case.env))
    return policy.to(getattr(torch, case.dtype))


def _call_method(method: Callable[..., Any], rref: RRef[Any], *args: Any, **kwargs: Any) -> Any:
    """Runs on the owner of ``rref``: ``method`` of the object itself (S0.9)."""
    return method(rref.local_value(), *args, **kwargs)


def _remote_method(
    method: Callable[..., Any], rref: RRef[Any], *args: Any, timeout: float, **kwargs: Any
) -> torch.futures.Future[Any]:
    """Call ``method`` of the object that ``rref`` names, where that object lives."""
    future: torch.futures.Future[Any] = rpc.rpc_async(
        rref.owner(), _call_method, args=(method, rref, *args), kwargs=kwargs, timeout=timeout
    )
    return future


class Observer:
    """Runs on each observer; the agent makes it there."""

    def __init__(self, case: Case, rank: int) -> None:
        self.case = case
        self.rank = rank
        self.env = make_environment(case.env)
        name = observer_names(case.observers)[rank - 1]
        self.env.reset(seed=environment_seed(case.seed, name))  # the only seed; resets go on from it
        self.lock = threading.Lock()
        self.played = 0

    def run_episode(self, agent_rref: RRef[Any], episode: int, n_steps: int) -> None:
        """Act until the environment ends or for ``n_steps`` steps; the agent gets every reward.

        ``episode`` counts from 1: a call that arrives twice plays once.

        Raises:
            RuntimeError: the agent failed or is gone.
        """
        with self.lock:
            if episode > self.played:
                self._play(agent_rref, n_steps)
                self.played = episode

    def _play(self, agent_rref: RRef[Any], n_steps: int) -> None:
        state, _ = self.env.reset()  # two values (0.8)
        for _ in range(n_steps):
            action = self._ask(Agent.select_action, agent_rref, state)
            state, reward, terminated, truncated, _ = self.env.step(action)  # five values (0.9)
            self._ask(Agent.report_reward, agent_rref, float(reward))
            if terminated or truncated:
                break

    def _ask(self, method: Callable[..., Any], agent_rref: RRef[Any], *args: Any) -> Any:
        """One call of the agent, which learns from whom it comes (S0.10, S0.11)."""
        return rpc.rpc_sync(
            agent_rref.owner(), _call_method, args=(method, agent_rref, self.rank, *args), timeout=self.case.timeout
        )


@dataclass
class Record:
    """One observer's episode, as far as it has come. ``log_probs`` are tensors of shape (1,)."""

    draws: Draws
    actions: list[int]
    rewards: list[float]
    log_probs: list[torch.Tensor]


def act(policy: Policy, state: np.ndarray[Any, Any], record: Record, dtype: torch.dtype) -> int:
    """One observer's next action, written into its record with its log-probability (S0.12)."""
    step = len(record.actions)
    keep = None if record.draws.keep is None else record.draws.keep[step]
    probs = policy(torch.from_numpy(state).to(dtype).unsqueeze(0), keep)
    action = pick(probs[0].tolist(), float(record.draws.uniforms[step]))
    record.actions.append(action)
    record.log_probs.append(probs[:, action].log())
    return action


def normalized(returns: Sequence[Sequence[float]], dtype: torch.dtype) -> list[torch.Tensor]:
    """Bring the observers' returns to mean 0 and variance 1 over all of them: each observer's, a tensor (steps,).

    Only what torch's operators compute is reordered in the twins that set a run's bound, so these compute the mean.
    """
    flat = torch.tensor([value for each in returns for value in each], dtype=dtype)
    away = flat - flat.mean()
    deviation = (away * away).mean().sqrt()
    return [*(away / (deviation + EPS)).split([len(each) for each in returns])]


class Agent:
    """Runs on ``agent``; observers' calls come in its one RPC thread, so one at a time.

    Only one: autograd numbers the operations of a graph by thread, and in that order a backward pass adds.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.dtype = getattr(torch, case.dtype)
        self.observers = observer_names(case.observers)
        self.ob_rrefs = {
            name: rpc.remote(name, Observer, args=(case, rank)) for rank, name in enumerate(self.observers, start=1)
        }
        self.chances = [Chance(case.seed, name, case.dropout, self.dtype) for name in self.observers]
        self.policy = initial_policy(case)
        self.optimizer = optim.Adam(self.policy.parameters(), lr=case.lr)
        self.running_reward = 0.0
        self.liveness = Liveness(self.observers, case.timeout)
        self.records: list[Record] = []
        self.episode = 0

    def select_action(self, ob_id: int, state: np.ndarray[Any, Any]) -> int:
        """The action for the state (inputs,) of the observer with rank ``ob_id``. Called by that observer."""
        self.liveness.heartbeat(self.observers[ob_id - 1])
        record = self.records[ob_id - 1]
        if len(record.actions) > len(record.rewards):
            return record.actions[-1]  # still without its reward: the same call came twice
        try:
            return act(self.policy, state, record, self.dtype)
        except Exception as error:  # not the observer's fault, whose call it is
            raise RuntimeError(f"the policy failed: {type(error).__name__}: {error}") from error

    def report_reward(self, ob_id: int, reward: float) -> None:
        """The reward of that observer's last action; a call that came twice counts once. Called by that observer."""
        self.liveness.heartbeat(self.observers[ob_id - 1])
        record = self.records[ob_id - 1]
        if len(record.rewards) < len(record.actions):
            record.rewards.append(reward)

    def run_episode(self, n_steps: int) -> None:
        """One episode of every observer, at once.

        Raises:
            ParticipantFailed: an observer failed or was silent, or the policy failed in its call. Says which.
        """
        self.episode += 1
        self.records = [Record(chance.episode(n_steps), [], [], []) for chance in self.chances]
        agent_rref: RRef[Any] = RRef(self)
        futs = {
            # Without a limit of its own: silence has one.
            name: _remote_method(Observer.run_episode, ob_rref, agent_rref, self.episode, n_steps, timeout=0)
            for name, ob_rref in self.ob_rrefs.items()
        }
        self.liveness.gather(futs)

    def finish_episode(self) -> tuple[float, torch.Tensor]:
        """One update from all observers' records; returns the worst observer's sum of rewards, and the loss."""
        returns = normalized([discounted(record.rewards, self.case.gamma) for record in self.records], self.dtype)
        losses = [
            (-torch.cat(record.log_probs) * each).sum() for record, each in zip(self.records, returns, strict=True)
        ]
        self.optimizer.zero_grad()
        for loss in losses:
            # One by one: observers' calls came in any order, which must not be the order of sums (S0.14).
            loss.backward()
        self.optimizer.step()
        min_reward = min(sum(record.rewards) for record in self.records)
        self.running_reward = 0.05 * min_reward + (1 - 0.05) * self.running_reward
        return min_reward, torch.stack(losses).sum().detach()


def record_episode(
    recorder: Recorder,
    episode: int,
    records: Mapping[str, Record],
    policy: nn.Module,
    loss: torch.Tensor,
    rewards: tuple[float, float],
) -> None:
    """Put one episode into the trace; ``rewards`` are the worst observer's sum and the running average."""
    worst, running = (torch.tensor(value, dtype=torch.float64) for value in rewards)
    recorder.put(f"{episode:04d}/reward", {"episode": worst, "running": running})
    # In "ends" too: two runs that act otherwise are not two roundings of one result.
    recorder.put(f"{episode:04d}/actions", {name: torch.tensor(each.actions) for name, each in records.items()})
    if recorder.case.record == "every":
        given = {name: torch.tensor(each.rewards, dtype=torch.float64) for name, each in records.items()}
        recorder.put(f"{episode:04d}/rewards", given)
    recorder.step(episode, {"policy": loss}, policy)


@dataclass(frozen=True)
class RunAgent:
    """What role ``agent`` runs.

    Raises:
        ParticipantFailed: as `Agent.run_episode`.
    """

    case: Case

    def __call__(self) -> Trace:
        agent = Agent(self.case)
        recorder = Recorder(self.case, dict(agent.policy.named_parameters()))
        for episode in range(self.case.steps):
            agent.run_episode(self.case.n_steps)
            reward, loss = agent.finish_episode()
            records = dict(zip(agent.observers, agent.records, strict=True))
            record_episode(recorder, episode, records, agent.policy, loss, (reward, agent.running_reward))
        return recorder.trace()


def serve() -> None:
    """What observers run until the agent calls, and until the common shutdown."""


def roles(case: Case) -> dict[str, Callable[[], object]]:
    first: dict[str, Callable[[], object]] = {"agent": RunAgent(case)}
    playing = {**first, **dict.fromkeys(observer_names(case.observers), serve)}
    return Roles(playing, each={"agent": {"num_worker_threads": 1}})


@one_thread()
def train_locally(case: Case, replay: Trace | None = None) -> Trace:
    """The twin: one observer's episode after the other, then one update."""
    dtype = getattr(torch, case.dtype)
    policy = initial_policy(case)
    optimizer = optim.Adam(policy.parameters(), lr=case.lr)
    recorder = Recorder(case, dict(policy.named_parameters()))
    names = observer_names(case.observers)
    chances = [Chance(case.seed, name, case.dropout, dtype) for name in names]
    environments = [make_environment(case.env) for _ in names]
    for name, env in zip(names, environments, strict=True):
        env.reset(seed=environment_seed(case.seed, name))
    running = 0.0
    for episode in range(case.steps):
        records = [Record(chance.episode(case.n_steps), [], [], []) for chance in chances]
        for env, record in zip(environments, records, strict=True):
            play_locally(case, env, policy, record)
        returns = normalized([discounted(record.rewards, case.gamma) for record in records], dtype)
        optimizer.zero_grad()
        losses = []
        for record, each in zip(records, returns, strict=True):
            loss = -(torch.cat(record.log_probs) * each).sum()
            loss.backward()
            losses.append(loss.detach())
        optimizer.step()
        worst = min(sum(record.rewards) for record in records)
        running = 0.05 * worst + 0.95 * running
        named = dict(zip(names, records, strict=True))
        record_episode(recorder, episode, named, policy, torch.stack(losses).sum(), (worst, running))
    return recorder.trace()


def play_locally(case: Case, env: gymnasium.Env[Any, Any], policy: Policy, record: Record) -> None:
    """One observer's episode."""
    state, _ = env.reset()
    for _ in range(case.n_steps):
        state, reward, terminated, truncated, _ = env.step(act(policy, state, record, getattr(torch, case.dtype)))
        record.rewards.append(float(reward))
        if terminated or truncated:
            break


def running_rewards(trace: Trace) -> list[float]:
    """The running reward after each episode: the learning curve. Raises TraceError: it is not in the trace."""
    curve = [trace.tensors.get(f"{episode:04d}/reward/running") for episode in range(trace.case.steps)]
    found = [float(reward) for reward in curve if reward is not None and reward.numel() == 1]
    if len(found) < len(curve):
        raise TraceError(f"a running reward in {len(found)} of {len(curve)} episodes, wanted one in each")
    return found


def goal(trace: Trace) -> str:
    """After how many episodes the running reward has reached the environment's published threshold.

    Raises:
        TraceError: it never has, or the environment has no threshold.
    """
    threshold = gymnasium.spec(trace.case.env).reward_threshold  # type: ignore[attr-defined]
    if threshold is None:
        raise TraceError(f"{trace.case.env} has no threshold")  # type: ignore[attr-defined]
    curve = running_rewards(trace)
    for episode, reward in enumerate(curve, start=1):
        if reward >= threshold:
            return f"running reward {reward:.1f} after {episode} episodes"
    raise TraceError(f"running reward at most {max(curve):.1f} in {len(curve)} episodes, wanted {threshold}")
