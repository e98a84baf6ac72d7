"""Mistakes of parameter servers, as real programs have made them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import Any

import torch
from torch import nn, optim

from reference import load
from reference.conform.selftest.broken import Broken, at, early, late, renumbered, replaced, swapped, without

SERVER, EXACT, CONVNET = "batch_parameter_server-002", "batch_parameter_server-001", "batch_parameter_server-003"
_module = load("batch_parameter_server")


def _sgd(**settings: Any) -> Any:
    def made(case: Any, model: nn.Module) -> optim.SGD:
        return optim.SGD(model.parameters(), **{"lr": case.lr, "momentum": case.momentum, **settings})

    return replaced(_module, "sgd", made)


def _averaged(over: int) -> Any:
    def average(model: nn.Module, count: int, buffers: Sequence[Any]) -> None:
        own(model, over, buffers)

    own = _module.average
    return replaced(_module, "average", average)


def _accumulated(times: Callable[[int], int]) -> Any:
    """Add the gradients of trainer ``n`` of three, from 0, ``times(n)`` times."""

    def patch() -> Any:
        trainers, own = cycle(range(3)), _module.accumulate

        def accumulate(model: nn.Module, grads: Any) -> None:
            for _ in range(times(next(trainers))):
                own(model, [each.clone() for each in grads])

        return replaced(_module, "accumulate", accumulate)()

    return patch


def _batches(change: Callable[[list[Any]], list[Any]]) -> Any:
    own = _module.Trainer.get_next_batch

    def get_next_batch(self: Any) -> Iterator[Any]:
        yield from change(list(own(self)))

    return replaced(_module.Trainer, "get_next_batch", get_next_batch)


def _loss(function: Any) -> Any:
    def gradients_of(self: Any, m: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = function(m(inputs), labels)
        loss.backward()
        return loss.detach()

    return replaced(_module.Trainer, "gradients", gradients_of)


def _resumed() -> Any:
    """An optimizer whose momentum is lost at the third step."""

    class Forgetful(optim.SGD):
        steps = 0

        def step(self, closure: Any = None) -> Any:
            self.steps += 1
            if self.steps == 3:
                self.state.clear()
            return super().step(closure)

    return replaced(
        _module, "sgd", lambda case, model: Forgetful(model.parameters(), lr=case.lr, momentum=case.momentum)
    )


def _halved_at_zero(x: torch.Tensor, inplace: bool) -> torch.Tensor:
    """ReLU with the gradient 1/2 at 0, as ``torch.maximum`` and JAX's ``maximum`` have it."""
    return torch.where(x > 0, x, torch.where(x == 0, x * 0.5, 0 * x))


SERVER_MISTAKES = (
    Broken("summed", SERVER, "factor", "3 = trainers: summed, not averaged", _averaged(1)),
    Broken("averaged twice", EXACT, "factor", "1/4 * the reference's, 4 = trainers", _averaged(16)),
    Broken(
        "times 4, the trainers and the rows",
        EXACT,
        "factor",
        "4 * the reference's, 4 = trainers: summed, not averaged? Or 4 = rows of a batch: multiplied by it?",
        _averaged(1),
    ),
    Broken(
        "twice, without a square",
        EXACT,
        "factor",
        "exactly 2 * the reference's, which no number of the case explains",
        change=at(0, "gradient", lambda t: 2 * t),
    ),
    Broken("a trainer missing", SERVER, "missing", "without trainer3", _accumulated(lambda n: int(n < 2))),
    Broken("a trainer twice", SERVER, "twice", "trainer2 counted twice", _accumulated(lambda n: 1 + (n == 1))),
    Broken("no momentum", SERVER, "no-momentum", "without momentum", _sgd(momentum=0.0)),
    Broken("no momentum, exact", EXACT, "no-momentum", "without momentum", _sgd(momentum=0.0)),
    Broken("dampening", SERVER, "dampening", "with dampening 0.9", _sgd(dampening=0.9)),
    Broken("nesterov", SERVER, "nesterov", "with Nesterov's momentum", _sgd(nesterov=True)),
    Broken("ascent", SERVER, "added", "the update with the wrong sign", _sgd(maximize=True)),
    Broken("weight decay", SERVER, "weight-decay", "with weight decay 0.0005", _sgd(weight_decay=5e-4)),
    Broken("another rate", SERVER, "rate", "with the rate 0.1 instead of 0.05", _sgd(lr=0.1)),
    Broken("rate times trainers", SERVER, "rate", "3 times the case's", _sgd(lr=0.05 * 3)),
    Broken("momentum lost", SERVER, "momentum-lost", "begins anew at this step", _resumed()),
    Broken("next batch", SERVER, "other-batch", "of the next step's batch", _batches(lambda b: [*b[1:], b[0]])),
    Broken(
        "one batch for ever", SERVER, "other-batch", "of the last step's batch", _batches(lambda b: [b[0]] * len(b))
    ),
    Broken(
        "labels not raised by 1",
        EXACT,
        "plain-labels",
        "with the labels, wanted label + 1",
        replaced(_module, "weighted_sum", lambda outputs, labels: (outputs * labels).sum()),
    ),
    Broken(
        "a maximum for ReLU",
        EXACT,
        "relu-at-zero",
        "a gradient of ReLU at 0 of 1/2",
        replaced(nn.functional, "relu", _halved_at_zero),
    ),
    Broken(
        "a clamp for ReLU",
        EXACT,
        "relu-at-zero",
        "a gradient of ReLU at 0 of 1,",
        replaced(nn.functional, "relu", lambda x, inplace: torch.where(x >= 0, x, torch.zeros_like(x))),
    ),
    Broken(
        "labels of a later batch, exact",
        EXACT,
        "unexplained",
        "Unexplained",
        _batches(lambda b: [(x, y.flip(0)) for x, y in b]),
    ),
    Broken(
        "a loss that is a sum", SERVER, "factor", "20 = rows of a batch * classes", _loss(nn.MSELoss(reduction="sum"))
    ),
    Broken(
        "half the square",
        SERVER,
        "factor",
        "exactly 1/2 * the reference's: the 2 of a square's derivative?",
        _loss(lambda a, b: ((a - b) ** 2).mean() / 2),
    ),
    Broken("gradients recorded late", SERVER, "other-step", "the reference's of step 0000", change=late("gradient")),
    Broken("recorded early", SERVER, "not-updated", "the parameters before the update", change=early),
    Broken(
        "transposed",
        SERVER,
        "transposed",
        "transposed: layouts are (out, in)?",
        change=at(0, "gradient", lambda t: t.t() if t.dim() == 2 else t),
        verdict="malformed",
    ),
    Broken(
        "losses exchanged",
        SERVER,
        "other-tensor",
        "the reference's 0000/loss/trainer2",
        change=swapped("0000/loss/trainer1", "0000/loss/trainer2"),
    ),
    Broken(
        "not a number",
        SERVER,
        "nan",
        "NaN begins in 0002/gradient/3.weight",
        change=at(2, "gradient", lambda t: t * torch.nan),
    ),
    Broken("shifted", SERVER, "unexplained", "Unexplained", change=at(1, "gradient", lambda t: t + 0.3)),
    Broken("steps from 1", SERVER, "structure", "counted from 1?", change=renumbered, verdict="malformed"),
    Broken(
        "no gradients", SERVER, "structure", "gradient/* in every step", change=without("gradient"), verdict="malformed"
    ),
    Broken(
        "unbiased batch norm",
        CONVNET,
        "unexplained",
        "Unexplained",
        change=at(0, "buffer", lambda t: t * 1.01, "running_var"),
    ),
)
