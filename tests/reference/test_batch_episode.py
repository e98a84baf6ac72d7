"""Saved actions: one layout for both modes, the draws of the next step, and what comes into the trace."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch

from reference.trace.trace import Recorder
from reference.training.batch_episode import SavedActions
from reference.training.cartpole import HIDDEN, Draws
from reference.training.training_case import TrainingCase

OBSERVERS, STEPS = 3, 4
ACTIONS = torch.arange(STEPS * OBSERVERS).reshape(STEPS, OBSERVERS)
LOG_PROBS = -torch.arange(1.0, STEPS * OBSERVERS + 1).reshape(STEPS, OBSERVERS)
REWARDS = LOG_PROBS * 10
UNIFORMS = torch.linspace(0, 1, STEPS * OBSERVERS, dtype=torch.float64).reshape(OBSERVERS, STEPS)


@dataclass(frozen=True)
class Sample(TrainingCase):
    """A case without fields of its own."""


def draws(dropout_mask: torch.Tensor | None = None) -> list[Draws]:
    masks = [None] * OBSERVERS if dropout_mask is None else list(dropout_mask)
    return [Draws(each, mask) for each, mask in zip(UNIFORMS, masks, strict=True)]


def saved(batch: bool) -> SavedActions:
    """All steps; without ``batch`` the second observer's first, then the others' in turn."""
    actions = SavedActions(draws(), batch)
    if batch:
        for step in range(STEPS):
            actions.add(ACTIONS[step].tolist(), LOG_PROBS[step])
        return actions
    order = [(step, 1) for step in range(STEPS)] + [(step, observer) for step in range(STEPS) for observer in (2, 0)]
    for step, observer in order:
        actions.add([int(ACTIONS[step, observer])], LOG_PROBS[step, observer : observer + 1], observer)
    return actions


@pytest.mark.parametrize("batch", [True, False])
def test_steps_come_out_by_step_and_observer_however_they_were_added(batch: bool) -> None:
    assert torch.equal(saved(batch).actions, ACTIONS)
    assert torch.equal(saved(batch).log_probs, LOG_PROBS)


def test_a_batch_has_one_pair_of_log_probabilities_and_rewards() -> None:
    ((log_probs, rewards),) = saved(True).beside(REWARDS)
    assert torch.equal(log_probs, LOG_PROBS)
    assert torch.equal(rewards, REWARDS)


def test_without_a_batch_each_observer_has_its_own_pair() -> None:
    pairs = list(saved(False).beside(REWARDS))
    assert len(pairs) == OBSERVERS
    for observer, (log_probs, rewards) in enumerate(pairs):
        assert torch.equal(log_probs, LOG_PROBS[:, [observer]])
        assert torch.equal(rewards, REWARDS[:, [observer]])


def test_draws_are_those_of_the_observers_own_next_step() -> None:
    actions = SavedActions(draws(), batch=False)
    for step in range(2):
        assert actions.draws(2) == (None, [UNIFORMS[2, step].item()])
        actions.add([0], torch.zeros(1), 2)
    assert actions.draws(0) == (None, [UNIFORMS[0, 0].item()])


def test_draws_of_a_batch_are_all_observers() -> None:
    masks = torch.rand(OBSERVERS, STEPS, HIDDEN)
    actions = SavedActions(draws(masks), batch=True)
    actions.add([0] * OBSERVERS, torch.zeros(OBSERVERS))
    dropout_mask, uniforms = actions.draws()
    assert uniforms == UNIFORMS[:, 1].tolist()
    assert dropout_mask is not None
    assert torch.equal(dropout_mask, masks[:, 1].unsqueeze(1))


@pytest.mark.parametrize("batch", [True, False])
def test_the_trace_has_all_three_by_step_and_observer(batch: bool) -> None:
    recorder = Recorder(Sample(), {})
    saved(batch).record(recorder, 7, REWARDS)
    wanted = {"actions": ACTIONS, "log_probs": LOG_PROBS, "rewards": REWARDS}
    found = recorder.trace().tensors
    assert list(found) == [f"0007/steps/{name}" for name in wanted]
    assert all(torch.equal(found[f"0007/steps/{name}"], tensor) for name, tensor in wanted.items())


def test_the_trace_has_the_actions_even_if_it_records_the_ends_only() -> None:
    recorder = Recorder(replace(Sample(), record="ends"), {})
    saved(True).record(recorder, 0, REWARDS)
    assert list(recorder.trace().tensors) == ["0000/steps/actions"]
