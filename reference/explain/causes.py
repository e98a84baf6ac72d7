"""Say which general mistakes would give exactly the numbers of one stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from reference.explain.difference import close, rounding_of, same_bits
from reference.explain.stages import Candidate, Cause, Failed
from reference.trace.names import own_name, parameter_before, place_of


def causes(failed: Failed) -> Iterator[Cause]:
    """Yield what may be wrong, the simplest first."""
    yield from moments(failed)
    yield from factors(failed)
    yield from parts(failed)
    if failed.place[1] == "parameter":
        yield from updates(failed)
    yield from precision(failed)
    yield from layouts(failed)


def moments(failed: Failed) -> Iterator[Cause]:
    """Yield recordings of another moment."""
    step, kind = failed.place
    if kind == "parameter":
        text = "the parameters before the update: recorded too early, or never updated?"
        yield Cause("not-updated", text, failed.before)
        last, before = failed.stages.steps(kind)[-1], failed.before(failed.first)
        if step < last and before is not None and not same_bits(before, failed.yours[failed.first]):
            text = "your own parameters of the last step: recorded without a copy, or not updated any more?"
            yield Cause("no-copy", text, lambda name: failed.yours.get(parameter_before(last + 1, own_name(name))))
    near = sorted(failed.stages.steps(kind), key=lambda other: (abs(other - step), other))
    for other in near:
        # Later parameters are computed from these.
        if other != step and not (kind == "parameter" and other >= step - 1):
            yield Cause("other-step", f"that of step {other:04d}", partial(failed.at, other))
    if kind == "gradient":
        text, own = "the right ones added to your own of the step before: not set to zero?", failed.yours

        def accumulated(name: str) -> torch.Tensor | None:
            before = own.get(f"{place_of(name)[0] - 1:04d}/gradient/{own_name(name)}")
            return None if before is None else before + failed.right[name]

        yield Cause("accumulated", text, accumulated, everywhere=True)
        yield Cause("zero", "zero: nothing has arrived here", lambda name: torch.zeros_like(failed.right[name]))


def layouts(failed: Failed) -> Iterator[Cause]:
    """Yield the right numbers at another place."""

    def transposed(name: str) -> torch.Tensor | None:
        right = failed.right[name]
        return right if right.dim() != 2 else right.t().reshape(failed.yours[name].shape)

    yield Cause("transposed", "transposed", transposed)
    for name in failed.stages.names(failed.place):
        if name != failed.first and failed.right[name].shape == failed.right[failed.first].shape:
            yield Cause("other-tensor", f"that of {name}", {failed.first: failed.right[name]}.get)


# The whole numbers of a case by which a program may multiply or divide by mistake, and products of them.
_NUMBERS = {
    "trainers": "trainers",
    "workers": "workers",
    "observers": "observers",
    "num_split": "micro-batches",
    "contexts": "passes",
    "batch_size": "rows of a batch",
    "sequence": "tokens of a sequence",
    "num_classes": "classes",
    "outputs": "outputs",
    "batches": "batches of an epoch",
    "bag": "rows of a bag",
    "n_steps": "steps of an episode",
}
_PRODUCTS = (("batch_size", "num_classes"), ("batch_size", "outputs"), ("batch_size", "sequence"))


def named_numbers(case: Any) -> dict[float, str]:
    """Return the factors that a mistake may bring in, each with the numbers of the case that it is made of."""
    numbers = {text: float(getattr(case, name, 0)) for name, text in _NUMBERS.items()}
    found = {text: number for text, number in numbers.items() if number > 1}
    for left, right in _PRODUCTS:
        a, b = (_NUMBERS[each] for each in (left, right))
        if a in found and b in found:
            found[f"{a} * {b}"] = found[a] * found[b]
    if hasattr(case, "num_split") and case.batch_size > case.num_split:
        found["rows of a micro-batch"] = case.batch_size / case.num_split
    named = {2.0: "2", 0.5: "1/2", -1.0: "-1, the other sign"}
    if trainers := found.get("trainers"):
        told = f"{trainers:g}/{trainers + 1:g}: a mean over {trainers + 1:g} roles, not over {trainers:g} trainers"
        named[trainers / (trainers + 1)] = told
    for text, number in found.items():
        for factor, sign in ((number, ""), (1 / number, "1/")):
            told = f"{sign}{number:g}, where {number:g} {'may be' if factor in named else '='} {text}"
            named[factor] = f"{named[factor]} or {text}" if "where" in named.get(factor, "") else told
    return named


def factors(failed: Failed) -> Iterator[Cause]:
    """Yield multiples: of the numbers, or of an update. A sum is a multiple of a mean."""
    if failed.place[1] in ("initial", "buffer"):
        return
    update = failed.place[1] == "parameter"

    def multiple(factor: float) -> Candidate:
        def candidate(name: str) -> torch.Tensor | None:
            before = failed.before(name) if update else torch.zeros_like(failed.right[name])
            return None if before is None else before + factor * (failed.right[name] - before)

        return candidate

    what = "the update" if update else "the right numbers"
    for factor, text in named_numbers(failed.case).items():
        yield Cause("factor", f"{what} times {text}", multiple(factor), everywhere=True)
    lr = float(getattr(failed.case, "lr", 0.0))
    for rate in (0.001, 0.01, 0.1, 0.05, 1.0) if update and lr else ():
        yield Cause("rate", f"the update with the rate {rate:g}", multiple(rate / lr), everywhere=True)


def parts(failed: Failed) -> Iterator[Cause]:
    """Yield a sum or mean in which a part is missing or counts twice; nothing unless the twin tells its parts.

    The parts' weights are those whose sum is nearest to the run's wrong gradients.
    """
    (step, kind), wrong = failed.place, failed.stages.places[failed.place]
    prefix = f"{step:04d}/part/"
    owners = sorted({name.removeprefix(prefix).partition("/")[0] for name in failed.right if name.startswith(prefix)})
    each = {n: [failed.right.get(f"{prefix}{owner}/{own_name(n)}") for owner in owners] for n in wrong}
    known = {n: [part for part in found if part is not None] for n, found in each.items() if None not in found}
    if kind != "gradient" or len(owners) < 2 or not known:
        return
    _, whole = next(iter(known.items()))
    count = 1 if close(_weighted(whole, [1] * len(owners)), failed.right[next(iter(known))]) else len(owners)
    columns = [torch.cat([found[n].double().flatten() for found in known.values()]) for n in range(len(owners))]
    mine = torch.cat([failed.yours[name].double().flatten() for name in known])
    solved = torch.linalg.lstsq(torch.stack(columns, 1), mine[:, None])
    weights = count * solved.solution.flatten()
    if int(solved.rank) < len(owners) or not weights.isfinite().all():  # other weights have the same sum
        return
    times = [round(float(weight)) for weight in weights]
    if len(set(times)) == 1 or bool(((weights - torch.tensor(times)).abs() > 0.01).any()):
        return

    def mean(name: str) -> torch.Tensor | None:
        found = known.get(name)
        return None if found is None else _weighted(found, times) / count

    told = " + ".join(f"{each} * {owner}" for each, owner in zip(times, owners, strict=True))
    yield Cause("parts", f"({told}) / {count}" if count > 1 else told, mean)


def _weighted(parts: Sequence[torch.Tensor], weights: Sequence[int]) -> torch.Tensor:
    found = torch.zeros_like(parts[0])
    for part, weight in zip(parts, weights, strict=True):
        found += weight * part
    return found


def updates(failed: Failed) -> Iterator[Cause]:
    """Yield other rules of SGD, made of the run's own gradients; nothing for Adam."""
    case, momentum = failed.case, float(getattr(failed.case, "momentum", 0.0))
    if case.tutorial() in ("reinforce", "batch_reinforce", "dist_autograd"):
        return
    rule = {"lr": case.lr, "momentum": momentum}
    for decay in (1e-4, 5e-4, 1e-3, 1e-2):
        yield Cause("weight-decay", f"with weight decay {decay:g}", _sgd(failed, rule | {"weight_decay": decay}))
    if not momentum:
        return
    yield Cause("no-momentum", "without momentum", _sgd(failed, rule | {"momentum": 0.0}))
    dampened = _sgd(failed, rule | {"dampening": momentum})
    yield Cause("dampening", f"with dampening {momentum:g}", dampened)
    yield Cause("nesterov", "with Nesterov's momentum", _sgd(failed, rule | {"nesterov": True}))
    first = _sgd(failed, rule | {"lr": case.lr * (1 - momentum), "momentum": 0.0})
    if failed.place[0] == 0:
        yield Cause("dampening", f"with dampening {momentum:g} at the first step, too", first)


def _sgd(failed: Failed, rule: dict[str, Any]) -> Candidate:
    """Make the updates so far by a rule of `torch.optim.SGD`, each from the run's own parameters."""

    def candidate(name: str) -> torch.Tensor | None:
        own, steps = own_name(name), range(failed.place[0] + 1)
        before = [failed.yours.get(parameter_before(step, own)) for step in steps]
        gradients = [failed.yours.get(f"{step:04d}/gradient/{own}") for step in steps]
        parameter = nn.Parameter(torch.zeros_like(failed.yours[name]))
        optimizer = torch.optim.SGD([parameter], **rule)
        for value, gradient in zip(before, gradients, strict=True):
            if value is None or gradient is None:
                return None
            parameter.data, parameter.grad = value.clone(), gradient
            optimizer.step()
        return parameter.detach()

    return candidate


def precision(failed: Failed) -> Iterator[Cause]:
    """Yield numbers of float64 that have been float32 in between."""
    if failed.right[failed.first].dtype != torch.float64:
        return

    def single(name: str) -> torch.Tensor:
        mine, right = failed.yours[name], failed.right[name]
        fits = same_bits(mine, mine.float().double()) and close(mine, right, rounding_of(mine.float()))
        return mine if fits else right

    yield Cause("float32", "the right numbers up to float32's rounding: computed or stored in float32?", single)
