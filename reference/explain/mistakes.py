"""Say of known mistakes which numbers they would have given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any
from unittest import mock

import torch

from reference.explain.difference import Candidate, View, close, named_numbers, same_bits, total
from reference.explain.step_models import Part
from reference.trace.names import own_name


@dataclass(frozen=True)
class Hypothesis:
    """``id`` is permanent; ``text`` says what a program does that has this mistake; ``terms``: as for `close`."""

    id: str
    text: str
    candidate: Candidate
    terms: float = 0.0


class _ReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, slope: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.slope = slope
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        return grads[0] * ((x > 0) + ctx.slope * (x == 0)), None


@contextmanager
def relu_at_zero(slope: float) -> Iterator[None]:
    """Within the block ``torch.nn.functional.relu``, which ``nn.ReLU`` calls, has the gradient ``slope`` at 0."""

    def relu(x: torch.Tensor, inplace: bool = False) -> torch.Tensor:
        found: torch.Tensor = _ReLU.apply(x, slope)  # type: ignore[no-untyped-call]
        return found

    with mock.patch("torch.nn.functional.relu", relu):
        yield


# How many steps before and after this one are tried.
NEAR = 3


def data_mistakes(view: View) -> Iterator[Hypothesis]:
    """Yield the step's losses and gradients, computed of what another step or another role has."""
    yield from _other_batches(view)
    yield from _other_parameters(view)
    yield from _other_labels(view)
    assert view.step_model is not None
    for id, text, part_of in view.step_model.variants(view.step):
        yield _with_parts(view, id, text, part_of)
    for slope, how in (
        (0.5, "1/2, as that of maximum(x, 0) is"),
        (1.0, "1, as that of clamp(x, 0) is"),
    ):
        yield _with_parts(view, "relu-at-zero", f"with a gradient of ReLU at 0 of {how}", partial(_kinked, view, slope))


def _other_batches(view: View) -> Iterator[Hypothesis]:
    assert view.step_model is not None
    step_model, names = view.step_model, view.step_model.names(view.step)
    for step, what in ((view.step + 1, "next"), (view.step - 1, "last"), (0, "first")):
        if step != view.step:
            text = f"of the {what} step's batch"
            yield _with_batches(view, "other-batch", text, partial(step_model.batch, step=step))
            text = f"with the labels of the {what} step"
            yield _with_batches(view, "other-labels", text, partial(_mixed, view, step=step))
    if len(names) > 1 and step_model.word == "trainer":
        for other in names:
            mine = dict.fromkeys(names, step_model.batch(other, view.step))
            yield _with_batches(view, "one-batch", f"of {other}'s batch for every {step_model.word}", mine.__getitem__)


def _other_parameters(view: View) -> Iterator[Hypothesis]:
    """Stale parameters, or parameters that are newer than those at which the case wants the gradient."""
    assert view.step_model is not None
    right = view.step_model.taken_at(view.step)
    for step in sorted({0, *range(right - NEAR, view.step + 2)}, key=lambda each: (abs(each - right), each)):
        if step >= 0 and step != right:
            id = "stale" if step < right else "newer"
            text = f"at the parameters before step {step:04d}, wanted those before step {right:04d}"
            yield _with_parts(view, id, text, partial(view.part, parameters=step))


def _other_labels(view: View) -> Iterator[Hypothesis]:
    """The exact loss multiplies by label + 1, so that label 0 counts."""
    if view.case.is_exact:
        yield _with_batches(view, "plain-labels", "with the labels, wanted label + 1", partial(_plain, view))


def _plain(view: View, name: str) -> Any:
    assert view.step_model is not None
    mine = view.step_model.batch(name, view.step)
    return None if mine is None or len(mine) != 2 else (mine[0], mine[1] - 1)


def _kinked(view: View, slope: float, name: str) -> Part | None:
    with relu_at_zero(slope):
        return view.part(name)


def _mixed(view: View, name: str, step: int) -> Any:
    """This step's inputs with another step's labels."""
    assert view.step_model is not None
    mine, other = view.step_model.batch(name, view.step), view.step_model.batch(name, step)
    if mine is None or other is None or len(mine) != 2 or mine[1].shape != other[1].shape:
        return None
    return mine[0], other[1]


def _with_batches(view: View, id: str, text: str, batch_of: Callable[[str], Any]) -> Hypothesis:
    def part_of(name: str) -> Part | None:
        batch = batch_of(name)
        return None if batch is None else view.part(name, batch=batch)

    return _with_parts(view, id, text, part_of)


def _with_parts(view: View, id: str, text: str, part_of: Callable[[str], Part | None]) -> Hypothesis:
    """All parts of the step made by ``part_of``, once, and combined as usual; says nothing if one cannot be made."""

    @cache
    def made() -> Candidate | None:
        assert view.step_model is not None
        found = {name: part_of(name) for name in view.step_model.names(view.step)}
        parts = {name: part for name, part in found.items() if part is not None}
        return view.from_parts(view.usual, parts) if len(parts) == len(found) else None

    return Hypothesis(id, text, lambda name: None if (candidate := made()) is None else candidate(name))


# Tutorials whose natural loss is a mean of squares.
_SQUARES = ("batch_parameter_server", "sharded_parameter_server", "parameter_server", "pipeline")
# Numbers over which a loss may take its mean.
_MEANS = ("rows", "classes", "outputs", "tokens")


def factor_mistakes(view: View) -> Iterator[Hypothesis]:
    """Yield the reference's numbers times each named factor, times -1, and times 2 and 1/2.

    Parameters are no multiple of anything: a factor of their change is `optimizer_mistakes`'.
    """
    if view.stage in ("initial", "parameter", "buffer"):
        return
    for (factor, text), causes in _causes(view).items():
        yield _factor(view, factor, f"exactly {text} * the reference's{' Or'.join(causes)}")
    yield _factor(view, -1.0, "exactly -1 * the reference's: the sign is turned round?")


def _causes(view: View) -> dict[tuple[float, str], list[str]]:
    """All that may cause a factor: a number of the case may have several names."""
    found: dict[tuple[float, str], list[str]] = {}
    for number, what in named_numbers(view.case):
        for key in ((float(number), f"{number}"), (1.0 / number, f"1/{number}")):
            start = "," if key not in found else ""
            found.setdefault(key, []).append(f"{start} {number} = {what}: {_guess(view, what, key[0])}")
    for key in ((2.0, "2"), (0.5, "1/2")):
        if view.case.tutorial() in _SQUARES and not view.case.is_exact:
            start = ":" if key not in found else ""
            found.setdefault(key, []).append(f"{start} the 2 of a square's derivative?")
        found.setdefault(key, [", which no number of the case explains"])
    return found


def _factor(view: View, factor: float, text: str) -> Hypothesis:
    return Hypothesis("factor", text, lambda name: view.reference[name] * factor)


def _guess(view: View, what: str, factor: float) -> str:
    if what in ("trainers", "observers") and view.stage == "gradient":
        return "summed, not averaged?" if factor > 1 else "averaged, not summed, or averaged twice?"
    if what in ("micro-batches", "passes"):
        return "each counted as a whole?" if factor > 1 else "an average instead of an accumulation?"
    averaged = not view.case.is_exact  # an exact loss is a sum
    if any(word in what for word in _MEANS) and averaged is (factor > 1):
        return "a sum instead of a mean?" if averaged else "a mean instead of a sum?"
    return "multiplied by it?" if factor > 1 else "divided by it?"


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


def part_mistakes(view: View) -> Iterator[Hypothesis]:
    """Yield sums with one part missing or twice, means over fewer parts, and one part alone."""
    if not view.step_model or not view.step_model.summed or view.stage != "gradient" or len(view.parts) < 2:
        return
    parts, divisor, word = view.parts, view.step_model.divisor, view.step_model.word
    for name in parts:
        others = {key: part for key, part in parts.items() if key != name}
        yield Hypothesis("missing", f"without {name}", view.from_parts(view.usual, others))
        if divisor > 1:
            fewer = view.from_parts(lambda found: total(found) / (divisor - 1), others)
            yield Hypothesis("missing", f"without {name}, and averaged over the other {word}s", fewer)
        twice = view.from_parts(view.usual, {**parts, f"{name} again": parts[name]})
        yield Hypothesis("twice", f"{name} counted twice", twice)
        alone = view.from_parts(total, {name: parts[name]})
        yield Hypothesis("alone", f"that of {name} alone: nothing is added?", alone)


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


def tensor_mistakes(view: View) -> Iterator[Hypothesis]:
    """The value of another step, of another tensor, or the same numbers in another layout."""
    reference = view.reference

    def at(step: int) -> Candidate:
        return lambda name: reference.get(f"{step:04d}/{view.stage}/{own_name(name)}")

    if view.stage == "parameter":
        text = "the parameters before the update: recorded too early, or never updated?"
        yield Hypothesis("not-updated", text, lambda name: view.before(own_name(name), view.step))
    for step in (view.step - 1, view.step + 1, *range(view.step - 1)):
        if step >= 0 and not (view.stage == "parameter" and step == view.step - 1):
            yield Hypothesis("other-step", f"the reference's of step {step:04d}", at(step))

    def transposed(name: str) -> torch.Tensor | None:
        tensor = reference[name]
        if tensor.dim() != 2:
            return tensor
        mine = view.yours[name]
        return tensor.t() if tensor.shape[0] == tensor.shape[1] else tensor.t().reshape(mine.shape)

    yield Hypothesis("transposed", "transposed: layouts are (out, in)?", transposed)


def other_tensor(view: View) -> Iterator[Hypothesis]:
    """Another tensor's value of the same stage, for the first difference alone."""
    for name in view.names:
        if name != view.first and view.reference[name].shape == view.reference[view.first].shape:
            other = view.reference[name]

            def candidate(asked: str, other: torch.Tensor = other) -> torch.Tensor | None:
                return other if asked == view.first else None

            yield Hypothesis("other-tensor", f"the reference's {name}", candidate)


def precision_mistakes(view: View) -> Iterator[Hypothesis]:
    """Numbers of float64 that have been float32 in between."""
    if view.reference[view.first].dtype != torch.float64:
        return

    def single(name: str) -> torch.Tensor:
        """Yours where they are numbers of float32 and the reference's up to float32's rounding."""
        mine, right = view.yours[name], view.reference[name]
        fits = same_bits(mine, mine.float().double()) and close(mine, right, torch.finfo(torch.float32).eps)
        return mine if fits else right

    text = "numbers of float32, which are the reference's up to float32's rounding: computed or stored in float32?"
    yield Hypothesis("float32", text, single)
