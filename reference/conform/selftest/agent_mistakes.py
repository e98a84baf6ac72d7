"""Mistakes of agents: wrong returns, as real programs have made them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from unittest import mock

import torch

from reference import load
from reference.conform.selftest.broken import Broken, replaced
from reference.training import cartpole

AGENT, SINGLE = "reinforce-001", "reinforce-002"
_tutorial = load("reinforce")
_own_losses, _own_discounted, _own_normalized = _tutorial.losses_of, cartpole.discounted, cartpole.normalized


def _losses(name: str, function: Any) -> Any:
    """The losses with another function of ``cartpole``. Their gradients stay, so that episodes are played alike."""

    def losses_of(case: Any, records: Any) -> list[torch.Tensor]:
        right = _own_losses(case, records)
        with mock.patch.object(cartpole, name, function):
            wrong = _own_losses(case, records)
        return [a - a.detach() + b.detach() for a, b in zip(right, wrong, strict=True)]

    return replaced(_tutorial, "losses_of", losses_of)


_discounted, _normalized = partial(_losses, "discounted"), partial(_losses, "normalized")


def _not_discounted(rewards: Sequence[float], gamma: float) -> list[float]:
    return _own_discounted(rewards, 1.0)


def _rewards_alone(rewards: Sequence[float], gamma: float) -> list[float]:
    return list(rewards)


def _kept_raw(returns: Sequence[Sequence[float]], dtype: torch.dtype) -> list[torch.Tensor]:
    return [torch.tensor(each, dtype=dtype) for each in returns]


def _torch_std(returns: Sequence[Sequence[float]], dtype: torch.dtype) -> list[torch.Tensor]:
    """The published example's line: ``std()`` of torch divides by n - 1."""
    flat = torch.cat(_kept_raw(returns, dtype))
    return [*((flat - flat.mean()) / (flat.std() + cartpole.EPS)).split([len(each) for each in returns])]


def _one_by_one(returns: Sequence[Sequence[float]], dtype: torch.dtype) -> list[torch.Tensor]:
    return [_own_normalized([each], dtype)[0] for each in returns]


AGENT_MISTAKES = (
    Broken("agent without discount", AGENT, "undiscounted", "without discount", _discounted(_not_discounted)),
    Broken("agent with rewards", SINGLE, "rewards", "each action's own reward", _discounted(_rewards_alone)),
    Broken("agent with raw returns", AGENT, "raw-returns", "returns that are not normalised", _normalized(_kept_raw)),
    Broken("agent with torch's deviation", AGENT, "unbiased", "over n - 1, not n", _normalized(_torch_std)),
    Broken("agent observer by observer", AGENT, "each-by-itself", "normalised by themselves", _normalized(_one_by_one)),
)
