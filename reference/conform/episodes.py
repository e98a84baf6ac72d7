"""Recorded episodes of the two tutorials with agents: states and rewards, and each observer's draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from reference.roles import numbered
from reference.trace.trace import Trace
from reference.training import cartpole

Pair = tuple[str, torch.Tensor]


def episodes(case: Any, twin: Trace) -> Iterator[Pair]:
    """Play the twin's actions again, and yield what ``reinforce`` is given.

    For each observer and episode: ``data/OBSERVER/EPISODE/states`` (steps, inputs) are the states before each action,
    ``rewards`` (steps,) what each action earned.
    """
    for name in numbered("observer", case.observers):
        env = cartpole.seeded_environment(case.env, case.seed, name)
        rng = cartpole.ObserverRng(case.seed, name, case.dropout, case.torch_dtype)
        for episode in range(case.steps):
            state, _ = env.reset()
            states, rewards = [], []
            for action in twin.tensors[f"{episode:04d}/actions/{name}"].tolist():
                states.append(torch.as_tensor(state).to(case.torch_dtype))
                state, reward, *_ = env.step(action)
                rewards.append(float(reward))
            yield from _given(f"{name}/{episode:04d}", states, rewards, rng.episode(case.n_steps))


def batch_episodes(case: Any, twin: Trace) -> Iterator[Pair]:
    """The same for ``batch_reinforce``, whose episodes go on in a new start of the environment when one ends.

    ``ends`` (steps,) is 1 at the last step of a start: rewards after it do not count for the actions up to it.
    """
    for place, name in enumerate(numbered("observer", case.observers)):
        env = cartpole.seeded_environment(case.env, case.seed, name)
        rng = cartpole.ObserverRng(case.seed, name, case.dropout, case.torch_dtype)
        for episode in range(case.steps):
            state, _ = env.reset()
            states, rewards, ends = [], [], []
            actions = twin.tensors[f"{episode:04d}/steps/actions"][:, place].tolist()
            for step, action in enumerate(actions, start=1):
                states.append(torch.as_tensor(state).to(case.torch_dtype))
                state, reward, terminated, truncated, _ = env.step(action)
                rewards.append(float(reward))
                ends.append(terminated or truncated or step == len(actions))
                if ends[-1]:
                    state, _ = env.reset()
            yield from _given(f"{name}/{episode:04d}", states, rewards, rng.episode(case.n_steps))
            yield f"data/{name}/{episode:04d}/ends", torch.tensor(ends, dtype=torch.int64)


def _given(place: str, states: list[torch.Tensor], rewards: list[float], draws: cartpole.Draws) -> Iterator[Pair]:
    """``uniforms`` (steps,) choose the actions; ``dropout`` (steps, 128) are the factors of the hidden units."""
    yield f"data/{place}/states", torch.stack(states)
    yield f"data/{place}/rewards", torch.tensor(rewards, dtype=torch.float64)
    yield f"draws/{place}/uniforms", draws.uniforms[: len(states)]
    if draws.dropout_mask is not None:
        yield f"draws/{place}/dropout", draws.dropout_mask[: len(states)]
