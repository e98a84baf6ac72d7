"""Wrong updates: the reference's gradients, applied by another rule than the case's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from reference.explain.causal_order import own_name
from reference.explain.hypothesis import Hypothesis
from reference.explain.named_numbers import named_numbers
from reference.explain.view import Candidate, View

# Rates and decays that programs have by default.
RATES = (0.001, 0.01, 0.1, 0.05, 1.0)
DECAYS = (1e-4, 5e-4, 1e-3, 1e-2)


def optimizer_mistakes(view: View) -> Iterator[Hypothesis]:
    """Yield wrong updates; nothing for Adam, whose state is not in the trace."""
    case = view.case
    if case.tutorial() in ("reinforce", "batch_reinforce", "dist_autograd", "hybrid_ddp"):
        return
    momentum, lr = float(getattr(case, "momentum", 0.0)), float(case.lr)
    step = partial(_step, view)
    yield Hypothesis("added", "the update with the wrong sign", step(lr=-lr, momentum=momentum))
    if momentum:
        yield from _momenta(view, lr, momentum)
    for decay in DECAYS:
        mine = step(lr=lr, momentum=momentum, decay=decay)
        yield Hypothesis("weight-decay", f"with weight decay {decay:g}", mine)
    for rate in RATES:
        if rate != lr:
            mine = step(lr=rate, momentum=momentum)
            yield Hypothesis("rate", f"with the rate {rate:g} instead of {lr:g}", mine)
    for factor in _numbers(view):
        text = f"with the rate {lr * factor:g}, {factor:g} times the case's"
        yield Hypothesis("rate", text, step(lr=lr * factor, momentum=momentum))


def _momenta(view: View, lr: float, momentum: float) -> Iterator[Hypothesis]:
    """Other rules for the momentum, which counts from the second step on."""
    plain = _step(view, lr=lr, momentum=0.0)
    if view.step == 0:
        first = _step(view, lr=lr * (1 - momentum), momentum=0.0)
        text = f"with dampening {momentum:g} at the first step, as a mean that begins at 0"
        yield Hypothesis("dampening", text, first)
    if view.step == 1:
        yield Hypothesis("no-momentum", "without momentum", plain)
    dampened = _step(view, lr=lr, momentum=momentum, dampening=momentum)
    yield Hypothesis("dampening", f"with dampening {momentum:g}", dampened)
    nesterov = _step(view, lr=lr, momentum=momentum, nesterov=True)
    yield Hypothesis("nesterov", "with Nesterov's momentum", nesterov)
    if view.step > 1:
        yield Hypothesis("momentum-lost", "with momentum that begins anew at this step", plain)


def _numbers(view: View) -> list[float]:
    numbers = [float(number) for number, _ in named_numbers(view.case)]
    return [*numbers, *(1 / number for number in numbers), 2.0, 0.5, 10.0, 0.1]


def _gradients(view: View, own: str) -> list[torch.Tensor] | None:
    """The reference's gradients of one parameter, up to this step."""
    found = [view.reference.get(f"{step:04d}/gradient/{own}") for step in range(view.step + 1)]
    return None if any(each is None for each in found) else [each for each in found if each is not None]


def _step(
    view: View, *, lr: float, momentum: float, dampening: float = 0.0, nesterov: bool = False, decay: float = 0.0
) -> Candidate:
    """SGD's update by PyTorch's formula; the parameters before the step are the reference's."""

    def candidate(name: str) -> torch.Tensor | None:
        own = own_name(name)
        gradients, before = _gradients(view, own), view.before(own, view.step)
        if gradients is None or before is None:
            return None
        held: Any = None
        for step, gradient in enumerate(gradients):
            at = view.before(own, step)
            assert at is not None
            decayed = gradient + decay * at if decay else gradient
            held = decayed if held is None else momentum * held + (1 - dampening) * decayed
        update = decayed + momentum * held if nesterov else held if momentum else decayed
        return before - lr * update

    return candidate
