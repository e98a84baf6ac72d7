"""CartPole with one agent and many observers: the agent runs its policy once for all observers' states, or for each.

Source: seed 002, second half (batch-processing CartPole solver).

Roles: ``agent`` holds the policy, starts every episode and returns the trace; ``observer1`` … hold one environment
each. An observer sends its state at every step and gets an action as the reply of that same call. With ``batch`` the
call returns a future: the last observer to arrive runs the policy on all states at once. Without, each call runs it on
its own. An episode is ``n_steps`` steps of every observer, over as many starts of its environment as that takes.

One layout in both modes: rewards, actions and log-probabilities are (step, observer), (n_steps, observers), and so
is the loss before it is summed. In the published form without batching, log-probabilities are (observer, step, 1), so
that the product with rewards broadcasts: everybody's actions are rewarded with everybody's rewards (S2.27).

Observer i's action at step s, and its dropout mask, come from a generator of its own (`cartpole.Chance`): the order in
which observers arrive decides nothing, and with dropout off both modes compute the same (S2.29).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import torch
import torch.distributed.rpc as rpc
import torch.nn.functional as F
from torch import nn, optim
from torch.distributed.rpc import RRef

from reference.roles import Roles
from reference.rpc.liveness import Liveness, ParticipantFailed
from reference.trace.case import flag, number, text
from reference.trace.trace import Recorder, Trace
from reference.training.cartpole import (
    HIDDEN,
    Chance,
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

State = np.ndarray[Any, Any]


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


class Policy(nn.Module):
    """Scores of actions, as probabilities. Dropout's factors are drawn by observer, so they come as an argument."""

    def __init__(self, inputs: int, actions: int, batch: bool = True) -> None:
        super().__init__()
        self.affine1 = nn.Linear(inputs, HIDDEN)
        self.affine2 = nn.Linear(HIDDEN, actions)
        self.dim = 2 if batch else 1

    def forward(self, x: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        """States (observers, 1, inputs), or (1, inputs) of one; ``keep`` alike with HIDDEN as its last size."""
        x = self.affine1(x)
        if keep is not None:
            x = x * keep
        x = F.relu(x)
        action_scores = self.affine2(x)
        return F.softmax(action_scores, dim=self.dim)


def initial_policy(case: Case) -> Policy:
    """What the agent starts from, drawn in float32 and then converted."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed_for(case.seed, "policy"))
        policy = Policy(*sizes_of(case.env), batch=case.batch)
    return policy.to(getattr(torch, case.dtype))


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


def act(
    policy: nn.Module, states: torch.Tensor, keep: torch.Tensor | None, uniforms: Sequence[float]
) -> tuple[list[int], torch.Tensor]:
    """One action for each of the states, and their log-probabilities (states,)."""
    probs = policy(states, keep).flatten(end_dim=-2)
    actions = [pick(row, uniform) for row, uniform in zip(probs.tolist(), uniforms, strict=True)]
    return actions, probs.gather(1, torch.tensor(actions).unsqueeze(1)).squeeze(1).log()


def policy_loss(log_probs: torch.Tensor, rewards: torch.Tensor, observers: int) -> torch.Tensor:
    """Both (step, observer), or both (step,) of one of the ``observers``."""
    return (-log_probs * rewards / observers).sum()


class Chances:
    """Every observer's draws for one episode, by step."""

    def __init__(self, case: Case) -> None:
        dtype = getattr(torch, case.dtype)
        self.each = [Chance(case.seed, name, case.dropout, dtype) for name in observer_names(case.observers)]

    def draw(self, n_steps: int) -> None:
        """``uniforms[step][observer]``; ``keep[step, observer]`` is (1, HIDDEN)."""
        draws = [chance.episode(n_steps) for chance in self.each]
        self.uniforms: list[list[float]] = torch.stack([each.uniforms for each in draws], dim=1).tolist()
        keeps = [each.keep for each in draws if each.keep is not None]
        self.keep = torch.stack(keeps, dim=1).unsqueeze(2) if keeps else None

    def keep_at(self, step: int, observer: int | None = None) -> torch.Tensor | None:
        """Dropout's factors: (1, HIDDEN) for one observer, (observers, 1, HIDDEN) for all."""
        if self.keep is None:
            return None
        return self.keep[step] if observer is None else self.keep[step, observer]


class Observer:
    """Runs on each observer; the agent makes it there."""

    def __init__(self, case: Case, name: str) -> None:
        self.case = case
        self.id = observer_names(case.observers).index(name)
        self.env = make_environment(case.env)
        self.env.reset(seed=environment_seed(case.seed, name))  # the only seed; resets go on from it (S2.24)
        self.select_action: Callable[..., Any] = Agent.select_action_batch if case.batch else Agent.select_action
        self.lock = threading.Lock()
        self.played: tuple[int, tuple[torch.Tensor, int] | None] = (0, None)

    def run_episode(self, agent_rref: RRef[Any], agent: int, episode: int, n_steps: int) -> tuple[torch.Tensor, int]:
        """Discounted rewards (n_steps,), and the length of the first start.

        ``agent`` is the agent's number on its owner. It is sent at each step in the RRef's stead, which would cost
        further messages. ``episode`` counts from 1: a call that arrives twice plays once, and is answered alike.

        Raises:
            RuntimeError: the agent refused or failed, or is gone.
        """
        with self.lock:
            number, result = self.played
            if result is None or number != episode:
                result = self._play(agent_rref, agent, n_steps)
                self.played = (episode, result)
            return result

    def _play(self, agent_rref: RRef[Any], agent: int, n_steps: int) -> tuple[torch.Tensor, int]:
        (state, _), ep_reward, owner = self.env.reset(), n_steps, agent_rref.owner()  # S2.30: not a constant
        limit = self.case.timeout + 5  # the agent's own limit comes first, and says who is missing
        rewards: list[float] = []
        start_step = 0
        for step in range(n_steps):
            action = rpc.rpc_sync(owner, self.select_action, args=(agent, self.id, state), timeout=limit)
            state, reward, terminated, truncated, _ = self.env.step(action)  # five values (0.9)
            rewards.append(float(reward))
            if terminated or truncated or step + 1 >= n_steps:
                rewards[start_step:] = discounted(rewards[start_step:], self.case.gamma)
                state, _ = self.env.reset()
                if start_step == 0:
                    ep_reward = step + 1
                start_step = step + 1
        return torch.tensor(rewards, dtype=getattr(torch, self.case.dtype)), ep_reward


class AgentFailed(RuntimeError):
    """An episode that cannot be completed. Says why, and whom it lacks."""


def _action_or_raise(ob_id: int, future: torch.futures.Future[list[int] | AgentFailed]) -> int:
    result = future.wait()
    if isinstance(result, AgentFailed):
        raise result
    return result[ob_id]


# The agents of this process by their numbers.
_agents: weakref.WeakValueDictionary[int, Agent] = weakref.WeakValueDictionary()
_numbers = count()


class Agent:
    """Runs on ``agent``; its static methods are called by observers, in the agent's one RPC thread.

    Only one: autograd numbers the operations of a graph by thread, and in that order a backward pass adds.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.number = next(_numbers)
        self.observers = observer_names(case.observers)
        self.ob_rrefs = {name: rpc.remote(name, Observer, args=(case, name)) for name in self.observers}
        self.policy = initial_policy(case)
        self.optimizer = optim.Adam(self.policy.parameters(), lr=case.lr)
        self.running_reward = 0.0
        self.chances = Chances(case)
        self.dtype = getattr(torch, case.dtype)
        self.states = np.zeros((case.observers, 1, sizes_of(case.env)[0]), dtype=case.dtype)
        self.lock = threading.Lock()
        self.failure: AgentFailed | None = None
        self.liveness = Liveness(self.observers, case.timeout, waiting=self._waiting)
        self.episode = 0
        self._reset()
        _agents[self.number] = self

    @staticmethod
    def select_action(agent: int, ob_id: int, state: State) -> int:
        """The action for one observer's state, (inputs,). Called by that observer.

        Raises:
            AgentFailed: the episode has failed already.
            ValueError: the policy's probabilities are NaN.
        """
        self = _agents[agent]
        with self.lock:
            self._admit(ob_id)
            step = len(self.saved_log_probs[ob_id])
            states = torch.tensor(state[np.newaxis], dtype=self.dtype)
            uniforms = self.chances.uniforms[step][ob_id : ob_id + 1]
            try:
                actions, log_probs = act(self.policy, states, self.chances.keep_at(step, ob_id), uniforms)
            except Exception as error:  # not the observer's fault, whose call it is
                raise self._fail(f"the policy failed: {type(error).__name__}: {error}") from error
            self.saved_log_probs[ob_id].append(log_probs[0])
            self.saved_actions[ob_id].append(actions[0])
        return actions[0]

    @staticmethod
    @rpc.functions.async_execution  # type: ignore[untyped-decorator]
    def select_action_batch(agent: int, ob_id: int, state: State) -> torch.futures.Future[int]:
        """The same with one forward pass for all: a future for each observer, which the last to come completes.

        Raises:
            AgentFailed: an observer calls twice in a step, is missing or failed, or the policy did.
        """
        self = _agents[agent]
        result: list[int] | AgentFailed | None = None
        with self.lock:
            self._admit(ob_id)
            future_actions = self.future_actions
            # Through `then`: an exception set on the returned future itself would arrive as a value.
            future_action = future_actions.then(partial(_action_or_raise, ob_id))
            self.states[ob_id, 0] = state
            self.came.add(ob_id)
            if len(self.came) == len(self.observers):
                result = self._act()
                for name in self.observers:
                    self.liveness.heartbeat(name)  # they need not wait any longer, so their silence begins now
                self._next_step()
        if result is not None:
            # Outside the lock: this makes every waiting observer's reply (S2.32).
            future_actions.set_result(result)
        return future_action

    def run_episode(self, n_steps: int) -> Episode:
        """One episode of all observers, and the update of the policy from it.

        Raises:
            AgentFailed: the policy failed, or an observer failed, called twice or was silent. Says which.
        """
        self._reset()
        self.episode += 1
        self.chances.draw(n_steps)
        agent_rref: RRef[Any] = RRef(self)
        futs = {
            # Without a limit of its own, the default being 60 s (S2.34): silence has one.
            name: ob_rref.rpc_async(timeout=0).run_episode(agent_rref, self.number, self.episode, n_steps)
            for name, ob_rref in self.ob_rrefs.items()
        }
        try:
            rets = self.liveness.gather(futs).values()
        except ParticipantFailed as error:
            raise self.fail(str(error)) from error
        rewards = torch.stack([returns for returns, _ in rets], dim=1)
        return self.finish_episode(rewards, sum(ep_reward for _, ep_reward in rets) / len(rets))

    def finish_episode(self, rewards: torch.Tensor, ep_reward: float) -> Episode:
        """One policy gradient from ``rewards``, (step, observer); ``ep_reward`` is the mean over observers."""
        actions, probs = self._columns()
        observers = len(self.observers)
        self.optimizer.zero_grad()
        if self.case.batch:
            losses = [policy_loss(probs[0], rewards, observers)]
        else:
            # Observer by observer: their calls came in any order, which must not be the order of sums.
            losses = [policy_loss(column, rewards[:, i], observers) for i, column in enumerate(probs)]
        for loss in losses:
            loss.backward()
        self.optimizer.step()
        self.running_reward = 0.5 * ep_reward + 0.5 * self.running_reward
        log_probs = probs[0] if self.case.batch else torch.stack(probs, dim=1)  # (step, observer) (S2.27)
        loss = torch.stack(losses).sum()
        return Episode(actions, rewards, log_probs.detach(), loss.detach(), ep_reward, self.running_reward)

    def fail(self, reason: str) -> AgentFailed:
        """End every observer's wait, and refuse every later call. Returns the first failure."""
        with self.lock:
            future_actions = self.future_actions
            failure = self._fail(reason)
            self._next_step()
        future_actions.set_result(failure)
        return failure

    def _waiting(self) -> set[str]:
        """Observers that may be silent: they wait for the others."""
        return {self.observers[ob_id] for ob_id in tuple(self.came)}

    def _admit(self, ob_id: int) -> None:
        if self.failure is not None:
            raise self.failure
        if ob_id in self.came:
            raise AgentFailed(f"{self.observers[ob_id]} calls twice in one step")  # S2.31
        self.liveness.heartbeat(self.observers[ob_id])

    def _act(self) -> list[int] | AgentFailed:
        """All observers' actions for one step."""
        try:
            step = len(self.saved_log_probs[0])
            states = torch.tensor(self.states)  # a copy: the graph keeps it, and the next step overwrites (S2.26)
            actions, log_probs = act(self.policy, states, self.chances.keep_at(step), self.chances.uniforms[step])
        except Exception as error:  # whatever it was, the others must not wait for it (S2.33)
            return self._fail(f"the policy failed: {type(error).__name__}: {error}")
        self.saved_log_probs[0].append(log_probs)
        self.saved_actions[0].append(actions)
        return actions

    def _columns(self) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Actions (step, observer); log-probabilities alike, as one tensor, or as one (step,) an observer."""
        actions = torch.tensor(self.saved_actions[0] if self.case.batch else self.saved_actions)
        return actions if self.case.batch else actions.t(), [torch.stack(each) for each in self.saved_log_probs]

    def _reset(self) -> None:
        """Nothing saved: one list in batch mode, where an entry is all observers'; else one for each."""
        lists = 1 if self.case.batch else len(self.observers)
        self.saved_log_probs: list[list[torch.Tensor]] = [[] for _ in range(lists)]
        self.saved_actions: list[list[Any]] = [[] for _ in range(lists)]
        self._next_step()

    def _next_step(self) -> None:
        self.future_actions: torch.futures.Future[list[int] | AgentFailed] = torch.futures.Future()
        self.came: set[int] = set()

    def _fail(self, reason: str) -> AgentFailed:
        self.failure = self.failure or AgentFailed(reason)
        return self.failure


@dataclass(frozen=True)
class RunAgent:
    """What role ``agent`` runs.

    Raises:
        AgentFailed: as `Agent.run_episode`.
    """

    case: Case

    def __call__(self) -> Trace:
        agent = Agent(self.case)
        recorder = Recorder(self.case, dict(agent.policy.named_parameters()))
        for episode in range(self.case.steps):
            agent.run_episode(self.case.n_steps).record(recorder, episode, agent.policy)
        return recorder.trace()


def serve() -> None:
    """What observers run until the agent calls, and until the common shutdown."""


def roles(case: Case) -> dict[str, Callable[[], object]]:
    first: dict[str, Callable[[], object]] = {"agent": RunAgent(case)}
    playing = {**first, **dict.fromkeys(observer_names(case.observers), serve)}
    return Roles(playing, each={"agent": {"num_worker_threads": 1}})


@one_thread()
def train_locally(case: Case, replay: Trace | None = None) -> Trace:
    """The twin: all environments step together, in one process."""
    policy, chances = initial_policy(case), Chances(case)
    optimizer = optim.Adam(policy.parameters(), lr=case.lr)
    recorder = Recorder(case, dict(policy.named_parameters()))
    games = [Game(case, name) for name in observer_names(case.observers)]
    running_reward = 0.0
    for episode in range(case.steps):
        chances.draw(case.n_steps)
        actions, log_probs = play_locally(case, policy, games, chances)
        rewards = torch.tensor([game.returns() for game in games], dtype=getattr(torch, case.dtype)).t()
        optimizer.zero_grad()
        if case.batch:
            log_prob = torch.stack([torch.cat(step) for step in log_probs])
            losses = [policy_loss(log_prob, rewards, case.observers)]
        else:
            columns = [torch.cat(column) for column in zip(*log_probs, strict=True)]
            losses = [policy_loss(column, rewards[:, i], case.observers) for i, column in enumerate(columns)]
            log_prob = torch.stack(columns, dim=1)
        for loss in losses:
            loss.backward()
        optimizer.step()
        ep_reward = sum(len(game.starts[0]) for game in games) / len(games)
        running_reward = 0.5 * ep_reward + 0.5 * running_reward
        total = torch.stack(losses).sum().detach()
        done = Episode(torch.tensor(actions), rewards, log_prob.detach(), total, ep_reward, running_reward)
        done.record(recorder, episode, policy)
    return recorder.trace()


class Game:
    """One environment in the twin. ``starts`` are one episode's rewards, a list for each start."""

    def __init__(self, case: Case, name: str) -> None:
        self.gamma = case.gamma
        self.env = make_environment(case.env)
        self.env.reset(seed=environment_seed(case.seed, name))

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
    case: Case, policy: Policy, games: Sequence[Game], chances: Chances
) -> tuple[list[list[int]], list[list[torch.Tensor]]]:
    """One episode: actions by step and observer; log-probabilities by step, all in one or one an observer."""
    dtype = getattr(torch, case.dtype)
    all_actions, all_log_probs = [], []
    for game in games:
        game.begin()
    for step in range(case.n_steps):
        states = torch.stack([torch.tensor(game.state, dtype=dtype) for game in games]).unsqueeze(1)
        uniforms = chances.uniforms[step]
        if case.batch:
            passes = [act(policy, states, chances.keep_at(step), uniforms)]
        else:
            passes = [
                act(policy, state, chances.keep_at(step, i), uniforms[i : i + 1]) for i, state in enumerate(states)
            ]
        all_actions.append([action for actions, _ in passes for action in actions])
        all_log_probs.append([log_probs for _, log_probs in passes])
        for game, action in zip(games, all_actions[-1], strict=True):
            game.step(action, last=step + 1 == case.n_steps)
    return all_actions, all_log_probs
