"""Measure environment steps per second of the CartPole agent, batched and not, for several numbers of observers.

    python benchmarks/batching.py --json batching.json --picture batching.png

Ours is the tutorial, unchanged, timed from outside by its progress reports; one episode runs before the first that
counts. *Calls alone* are what torch's calls cost: the same roles, arguments, answers and fan-in, and nothing computed.
*Calls and work* is the limit of the batched mode: such calls, which run the policy, the environments and the update,
and nothing else of the tutorial. ``--published`` runs a program of its own beside it, in the same interleaved run.
"""

from __future__ import annotations

import argparse
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import measure
import numpy as np
import torch
import torch.distributed.rpc as rpc
from measure import BenchmarkError
from torch import optim

from reference.batch_reinforce import Case, roles
from reference.cli.table_command import Clock, draw
from reference.reinforce import initial_policy
from reference.roles import Roles, numbered
from reference.training import cartpole
from reference.world import launch

MODES = {"batched": True, "unbatched": False}

# --- The limit: the calls alone, and with the same work --------------------------------------------------------------


class Work:
    """What the tutorial's agent computes, without its refusals, its deadlines and a generator for each observer."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.policy = initial_policy(case)
        self.optimizer = optim.Adam(self.policy.parameters(), lr=case.lr)

    def begin(self) -> None:
        shape = self.case.n_steps, self.case.observers
        kept = torch.rand(*shape, cartpole.HIDDEN) >= self.case.dropout
        masks = (kept.float() / (1 - self.case.dropout)).unbind()
        self.draws = zip(torch.rand(shape).tolist(), masks, strict=True)
        self.actions: list[list[int]] = []
        self.probs: list[torch.Tensor] = []

    def act(self, states: np.ndarray[Any, Any]) -> list[int]:
        uniforms, dropout_mask = next(self.draws)
        probs = self.policy(torch.from_numpy(states), dropout_mask)
        actions = [cartpole.pick(row, uniform) for row, uniform in zip(probs.tolist(), uniforms, strict=True)]
        self.actions.append(actions)
        self.probs.append(probs)
        return actions

    def learn(self, rewards: list[list[float]]) -> None:
        """``rewards``: discounted, one list of each observer."""
        taken = torch.tensor(self.actions).unsqueeze(2)
        log_probs = torch.stack(self.probs).gather(2, taken).squeeze(2).log()
        self.optimizer.zero_grad()
        (-log_probs * torch.tensor(rewards).t() / self.case.observers).sum().backward()
        self.optimizer.step()


_waiting: dict[int, tuple[np.ndarray[Any, Any], torch.futures.Future[int]]] = {}
_work: list[Work] = []  # the agent's; empty if nothing is computed
_environment = cache(cartpole.seeded_environment)


def answer(observers: int, ob_id: int, state: np.ndarray[Any, Any]) -> int:
    """Runs on the agent."""
    return 0


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def answer_together(observers: int, ob_id: int, state: np.ndarray[Any, Any]) -> torch.futures.Future[int]:
    """Runs on the agent, in its only RPC thread: the last observer's call completes those of all."""
    future = torch.futures.Future[int]()
    _waiting[ob_id] = state, future
    if len(_waiting) == observers:
        both = [_waiting.pop(each) for each in range(observers)]
        actions = _work[0].act(np.stack([state for state, _ in both])) if _work else [0] * observers
        for (_, waiting), action in zip(both, actions, strict=True):
            waiting.set_result(action)
    return future


def ask(case: Case, ob_id: int) -> None:
    """Runs on an observer: one episode of calls alone."""
    state, function = np.zeros(4, dtype=np.float32), answer_together if case.batch else answer
    for _ in range(case.n_steps):
        rpc.rpc_sync("agent", function, args=(case.observers, ob_id, state), timeout=30)


def play(case: Case, ob_id: int) -> list[float]:
    """Runs on an observer: one episode. Returns its discounted rewards."""
    env, rewards, start = _environment(case.env, case.seed, f"observer{ob_id + 1}"), [], 0
    state, _ = env.reset()
    for step in range(case.n_steps):
        action = rpc.rpc_sync("agent", answer_together, args=(case.observers, ob_id, state), timeout=30)
        state, reward, terminated, truncated, _ = env.step(action)
        rewards.append(float(reward))
        if terminated or truncated or step + 1 == case.n_steps:
            rewards[start:] = cartpole.discounted(rewards[start:], case.gamma)
            state, _ = env.reset()
            start = step + 1
    return rewards


def ask_all(case: Case, work: bool) -> float:
    """Runs on the agent: seconds of all episodes but the first."""
    if work:
        _work.append(Work(case))
    for episode in range(case.steps):
        if episode == 1:
            begin = time.monotonic()
        for each in _work:
            each.begin()
        calls = [
            rpc.rpc_async(name, play if work else ask, args=(case, ob_id), timeout=0)
            for ob_id, name in enumerate(numbered("observer", case.observers))
        ]
        rewards = torch.futures.wait_all(calls)
        for each in _work:
            each.learn(rewards)
    return time.monotonic() - begin


def calls(case: Case, work: bool) -> Roles:
    options = {"agent": {"num_worker_threads": 1}}
    return Roles({"agent": partial(ask_all, case, work)}, each=options, serving=numbered("observer", case.observers))


# --- All ways --------------------------------------------------------------------------------------------------------


class Setting:
    """One number of observers, measured in every way."""

    def __init__(self, case: Case, deadline: float, published: Path | None) -> None:
        self.case = case
        self.deadline = deadline
        self.published = published

    def ways(self) -> measure.Ways:
        """Each way's measurement: environment steps per second, of all observers together."""
        ways: dict[str, Callable[[], float]] = {mode: partial(self.ours, batch) for mode, batch in MODES.items()}
        ways |= {f"{mode} calls alone": partial(self.calls, batch, False) for mode, batch in MODES.items()}
        ways["batched calls and work"] = partial(self.calls, True, True)
        if self.published is not None:
            ways |= published(self.published, self.case, self.deadline).ways()
        return ways

    def ours(self, batch: bool) -> float:
        case = replace(self.case, batch=batch)
        clock = Clock(None)
        with launch(roles(case), deadline=self.deadline, on_progress=clock) as world:
            measure.returned(world)
        if len(clock.times) != case.steps:
            raise BenchmarkError(f"{len(clock.times)} episodes were reported, wanted {case.steps}")
        return (case.steps - 1) * case.n_steps * case.observers / (clock.times[-1] - clock.times[0])

    def calls(self, batch: bool, work: bool) -> float:
        case = replace(self.case, batch=batch)
        with launch(calls(case, work), deadline=self.deadline) as world:
            seconds: Any = measure.returned(world)["agent"]
        return (case.steps - 1) * case.n_steps * case.observers / float(seconds)

    def result(self, repeats: int) -> dict[str, Any]:
        title = f"{self.case.observers} observers, "
        samples = measure.interleaved(self.ways(), repeats, unit="steps/s", title=title)
        others = ("published {}", "{} calls alone", "{} calls and work")
        beside = {each.format(mode): mode for mode in MODES for each in others}
        return {
            "observers": self.case.observers,
            "steps_per_second": {name: measure.spread(each) for name, each in samples.items()},
            "ours/it": {n: measure.ratios(samples[m], samples[n]) for n, m in beside.items() if n in samples},
        }


def published(script: Path, case: Case, deadline: float) -> measure.Published:
    """The published program, which prints the steps per second of both modes."""
    line = r"LOOP ws={} batch={} seconds=[\d.]+ steps/s=(\d+)"
    figures = {f"published {mode}": line.format(case.observers + 1, batch) for mode, batch in MODES.items()}

    def variables() -> dict[str, object]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return {"WS": case.observers + 1, "NUM_STEPS": case.n_steps, "PORT": free.getsockname()[1]}

    return measure.Published(script, deadline, figures, variables, ["--num-episode", str(case.steps - 1)])


def show(results: Sequence[Mapping[str, Any]]) -> None:
    rows = []
    for result in results:
        for name, rates in result["steps_per_second"].items():
            ratio = result["ours/it"].get(name)
            last = ["", "", ""] if ratio is None else measure.cells(ratio, 2)
            rows.append([name, str(result["observers"]), *measure.cells(rates, 0), *last])
    head = ["environment steps per second", "observers", "median", "min", "max", "ours / it", "min", "max"]
    print(measure.table(head, rows))


def drawn(path: Path, results: Sequence[Mapping[str, Any]]) -> None:
    """Draw medians over the number of observers, one line per program and mode."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for result in results:
        for name in (each for mode in MODES for each in (mode, f"published {mode}")):
            if rates := result["steps_per_second"].get(name):
                lines.setdefault(name, []).append((result["observers"], rates["median"]))
    draw(path, lines, x="observers", y="environment steps per second")


def arguments() -> argparse.Namespace:
    parser = measure.parser("Environment steps per second of the batched and the unbatched agent. Some 3 minutes.")
    add = parser.add_argument
    add("--observers", type=measure.count, nargs="+", default=[1, 2, 5, 10], help="numbers of observers")
    add("--episodes", type=measure.count, default=3, help="counted episodes; one more runs before them")
    add("--steps", type=measure.count, default=200, help="steps of each observer in an episode")
    add("--repeats", type=measure.count, default=3, help="runs of each way and number of observers")
    add("--deadline", type=measure.seconds, default=180.0, help="seconds after which one run has failed")
    add("--published", type=measure.existing, metavar="FILE", help="a program to run beside; reads WS, NUM_STEPS, PORT")
    add("--picture", type=measure.writable, metavar="FILE", help="draw the medians there (.png, .svg, .pdf)")
    return parser.parse_args()


def main() -> None:
    wanted = arguments()
    facts = measure.machine()
    cases = [
        Case(observers=observers, steps=wanted.episodes + 1, n_steps=wanted.steps, record="ends")
        for observers in wanted.observers
    ]
    results = [Setting(case, wanted.deadline, wanted.published).result(wanted.repeats) for case in cases]
    print(measure.heading(facts))
    show(results)
    options = {"repeats": wanted.repeats, "episodes": wanted.episodes, "steps": wanted.steps}
    measure.write(wanted.json, "batching", facts, **options, results=results)
    if wanted.picture is not None:
        drawn(wanted.picture, results)


if __name__ == "__main__":
    measure.run(main)
