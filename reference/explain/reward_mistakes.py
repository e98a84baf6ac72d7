"""Losses of agents with wrong returns, from the episode's own rewards and log-probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch

from reference.explain.hypothesis import Hypothesis
from reference.explain.view import Candidate, View

# What `reinforce` adds to the deviation before it divides: float32's epsilon, whatever the dtype.
EPS = float(torch.finfo(torch.float32).eps)

Returns = list[torch.Tensor]


def reward_mistakes(view: View) -> Iterator[Hypothesis]:
    """Yield wrong losses of one episode; nothing unless the trace has every observer's rewards."""
    rewards = _of_observers(view, "rewards")
    if not rewards:
        return
    gamma = float(view.case.gamma)
    returns = [_discounted(each, gamma) for each in rewards]
    scaled = partial(_normalised, unbiased=False)
    for id, text, found in (
        ("undiscounted", "without discount", scaled([_discounted(each, 1.0) for each in rewards])),
        ("rewards", "with each action's own reward, not the return", scaled(rewards)),
        ("raw-returns", "with returns that are not normalised", returns),
        ("unbiased", "with the deviation over n - 1, not n", _normalised(returns, unbiased=True)),
        ("each-by-itself", "with each observer's returns normalised by themselves", [scaled([r])[0] for r in returns]),
    ):
        terms = _terms(view, found)
        if terms is not None:
            yield Hypothesis(id, text, _loss(terms), float(terms.abs().sum()))


def _of_observers(view: View, what: str) -> Returns:
    """The twin's tensors of all observers in this episode, in the observers' order."""
    prefix = f"{view.step:04d}/{what}/observer"
    names = sorted((n for n in view.reference if n.startswith(prefix)), key=lambda n: int(n.removeprefix(prefix)))
    return [view.reference[name].double() for name in names]


def _discounted(rewards: torch.Tensor, gamma: float) -> torch.Tensor:
    """The sum of each reward and the later ones, discounted: (steps,)."""
    steps = torch.arange(len(rewards))
    away = steps - steps[:, None]
    return torch.where(away >= 0, gamma ** away.clamp(min=0).double(), 0.0) @ rewards


def _normalised(returns: Sequence[torch.Tensor], *, unbiased: bool) -> Returns:
    """All returns together with mean 0 and variance 1."""
    flat = torch.cat(list(returns))
    below = flat.std(unbiased=unbiased) + EPS
    return [(each - flat.mean()) / below for each in returns]


def _terms(view: View, returns: Returns) -> torch.Tensor | None:
    """``-log p * return`` of all observers' steps: the loss is their sum. None if the trace lacks log-probabilities."""
    log_probs = _of_observers(view, "log_probs")
    if [each.shape for each in log_probs] != [each.shape for each in returns]:
        return None
    return -torch.cat(log_probs) * torch.cat(returns)


def _loss(terms: torch.Tensor) -> Candidate:
    return lambda name: terms.sum()
