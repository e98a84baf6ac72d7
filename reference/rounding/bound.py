"""Bound a natural case's error: a run may be no farther from its float64 twin than rounding takes correct programs.

Twins that compute the same sums in other orders (`reordering`) measure how far that is. A correct run is one more
program of that kind, and its error may be as large as the sum of theirs. The errors are compared in two norms: the
2-norm of a tensor, and its largest element, which shows one wrong element among millions. The largest of the twins'
errors would be no bound: of 18 equal programs each has the largest error once in 18 times, and a trace has thousands of
tensors. Their sum is the error of a run that mixes the roundings of all twins, none of which cancels another.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch

from reference.trace.trace import Trace, TraceError, check_comparable

# The bound should notice one element that is wrong by this part of its tensor's scale; otherwise the verdict says so.
NOTICED = 0.01

_STATE = re.compile(r"\d+/(parameter|buffer)/.*")


@dataclass(frozen=True)
class Hidden:
    """The errors that pass unnoticed in the tensors of a result, as parts of each tensor's scale.

    ``rough``: the largest error of one element, if that is more than `NOTICED`. ``unjudged``: the error of the whole
    tensor, if that may be as large as the tensor.
    """

    rough: Mapping[str, float] = field(default_factory=dict)
    unjudged: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = self.unjudged or self.rough
        name, part = max(parts.items(), key=lambda item: item[1])
        seen = f"are checked only roughly: one element may be off in {name}"
        if self.unjudged:
            seen = f"cannot be judged: rounding may change {name}"
        return f"{len(parts)} tensors of the result {seen} by {100 * part:.2g} %"


def hidden(allowed: Mapping[str, tuple[float, float]], truth: Mapping[str, torch.Tensor]) -> Hidden:
    """Find what passes unnoticed under the ``allowed`` errors: per tensor, in the 2-norm and of one element."""
    scales = {name: _scale(name, truth) for name in result_of(truth)}
    one = {name: _part(allowed[name][1], scale) for name, scale in scales.items()}
    whole = {name: _part(allowed[name][0], scale * math.sqrt(truth[name].numel())) for name, scale in scales.items()}
    return Hidden(
        {name: part for name, part in one.items() if part > NOTICED},
        {name: part for name, part in whole.items() if part >= 1},
    )


def result_of(names: Iterable[str]) -> list[str]:
    """Name the tensors of a run's result: its last parameters and buffers, or all tensors if it has none."""
    every = list(names)
    found = {name: int(name.partition("/")[0]) for name in every if _STATE.fullmatch(name)}
    last = max(found.values(), default=0)
    return [name for name, step in found.items() if step == last] or every


def _part(allowed: float, scale: float) -> float:
    if not allowed:
        return 0.0
    return allowed / scale if scale else math.inf


def _scale(name: str, truth: Mapping[str, torch.Tensor]) -> float:
    """The root mean square of a tensor, or its initial one if that is larger: a bias may be trained towards 0."""
    first = f"initial/{name.split('/', 2)[-1]}"
    return max(float(truth[each].square().mean().sqrt()) for each in (name, first) if each in truth)


# The 2-norm of a tensor, and its largest element.
Norms = tuple[float, float]


@dataclass(frozen=True)
class TwinErrors:
    """The errors of twins. They are the same for all runs of a case that leave its twins no other order.

    ``exact``: the float64 twin; ``sizes``: per tensor of it, its norms; ``sums``: per tensor, the sum of the twins'
    errors; ``dtypes``: those of the twins' tensors. ``counted``: whether any twin takes the float64 twin's
    decisions; ``left_out``: the number of those that do not. ``unusable``: why a counted twin, which may hold NaN, has
    no error; empty if each has one.
    """

    exact: Trace
    sizes: dict[str, Norms]
    sums: dict[str, Norms]
    dtypes: dict[str, torch.dtype]
    counted: bool
    left_out: int
    unusable: str = ""


def twin_errors(twins: Iterable[Trace], exact: Trace) -> TwinErrors:
    """Measure the errors of ``twins`` with the float64 twin ``exact``.

    Each twin's error counts as at least one rounding. Twins that take another decision (an integer) than the float64
    twin are left out. Twins are read one after the other, so that only one is in memory.

    Raises:
        TraceError: ``exact`` is not in float64.
    """
    for name, tensor in exact.tensors.items():
        if tensor.is_floating_point() and tensor.dtype != torch.float64:
            raise TraceError(f"{name}: the float64 twin has {tensor.dtype}, wanted torch.float64")
    truth = floats(exact)
    sizes = {name: norms(true) for name, true in truth.items()}
    sums, dtypes = dict.fromkeys(truth, (0.0, 0.0)), dict[str, torch.dtype]()
    counted, left_out, unusable = False, 0, ""
    for twin in twins:
        if other_decision(twin, exact):
            left_out += 1
            continue
        counted = True
        try:
            check_comparable(exact.tensors, twin.tensors, same_dtype=False)
        except TraceError as error:
            unusable = str(error)
            continue
        for name, true in truth.items():
            sums[name] = _added(sums[name], twin.tensors[name], true, sizes[name])
        dtypes = {name: tensor.dtype for name, tensor in twin.tensors.items()}
    return TwinErrors(exact, sizes, sums, dtypes, counted, left_out, unusable)


def floats(exact: Trace) -> dict[str, torch.Tensor]:
    """Return the tensors that rounding changes: all but integers."""
    return {name: tensor for name, tensor in exact.tensors.items() if tensor.is_floating_point()}


def other_decision(trace: Trace, exact: Trace) -> str:
    """Name the first tensor of integers in which the two differ; empty if there is none."""
    for name, tensor in exact.tensors.items():
        given = trace.tensors.get(name, tensor)
        if not tensor.is_floating_point() and given.dtype == tensor.dtype and not torch.equal(given, tensor):
            return name
    return ""


def _added(allowed: Norms, tensor: torch.Tensor, true: torch.Tensor, size: Norms) -> Norms:
    """Add one twin's error to the allowed error; it counts as at least one rounding."""
    rounding = torch.finfo(tensor.dtype).eps
    two, largest = norms(tensor.double() - true)
    return allowed[0] + max(two, rounding * size[0]), allowed[1] + max(largest, rounding * size[1])


def norms(tensor: torch.Tensor) -> Norms:
    """The 2-norm and the largest element of a tensor."""
    largest = float(tensor.abs().amax()) if tensor.numel() else 0.0
    if not 0 < largest < math.inf:
        return largest, largest
    unit = math.ldexp(1.0, math.frexp(largest)[1] - 1)  # so that no square overflows, or is 0
    return float(torch.linalg.vector_norm(tensor / unit)) * unit, largest


class Undecided(TraceError):
    """There is no bound: a run took another decision than the float64 twin, as correct twins did, because rounding
    decides there; or a twin in another order cannot be compared."""


@dataclass(frozen=True)
class NaturalBound:
    """Per tensor, the ratio of the run's error to the allowed error, in the norm with the larger ratio.

    The bound holds if every ratio is at most 1. ``blind`` are tensors that rounding may change by as much as their own
    size: the bound says nothing about them. ``hidden`` are the tensors of the run's result that the bound checks only
    roughly, or cannot judge.
    """

    ratios: dict[str, float]
    blind: tuple[str, ...] = ()
    hidden: Hidden = field(default_factory=Hidden)

    @property
    def holds(self) -> bool:
        return all(ratio <= 1 for ratio in self.ratios.values())

    @property
    def worst(self) -> tuple[str, float]:
        return max(self.ratios.items(), key=lambda item: item[1])

    @property
    def verdict(self) -> str:
        if not self.holds:
            return "wrong"
        return "unknown" if self.hidden.unjudged else "within bound"

    def __str__(self) -> str:
        name, ratio = self.worst
        text = f"the worst error is {ratio:.2f} of its bound, in {name}"
        if self.blind:
            text += f"; there is no bound for {len(self.blind)} tensors, which rounding may change by their own size"
        if self.holds and self.hidden.rough:
            text += f"; {self.hidden}"
        return text


def bound_of(run: Trace, errors: TwinErrors) -> NaturalBound:
    """Compare ``run`` with its float64 twin by the errors of twins: correct runs in the run's dtype.

    A tensor whose allowed error is as large as itself is blind.

    Raises:
        Undecided: the run takes another decision than the float64 twin, and so does a twin; or all twins do; or a
            twin's tensor has no counterpart or another shape or is NaN.
        TraceError: there are no twins, a tensor of the run has no counterpart or another shape or dtype or is NaN, or
            an integer differs.
    """
    other = other_decision(run, errors.exact)
    if not other:
        check_comparable(run.tensors, errors.exact.tensors, same_dtype=False)
        for name, dtype in errors.dtypes.items():
            if run.tensors[name].dtype != dtype:
                raise TraceError(f"{name}: dtypes differ, {run.tensors[name].dtype} and {dtype}")
        if errors.unusable:
            raise Undecided(errors.unusable)
    elif errors.left_out:
        raise Undecided(
            f"{other}: integers differ from the float64 twin's; {errors.left_out} correct twins take other decisions "
            "than it, too: undecided"
        )
    else:
        raise TraceError(f"{other}: integers differ from the float64 twin's")
    if not errors.counted:
        if errors.left_out:
            raise Undecided(f"all {errors.left_out} twins take other decisions than the float64 twin: undecided")
        raise TraceError("got no twin to measure rounding with, wanted at least one")
    truth = floats(errors.exact)
    ratios = {name: error_ratio(name, run.tensors[name], errors) for name in truth}
    blind = (name for name, size in errors.sizes.items() if errors.sums[name][0] >= size[0] > 0)
    return NaturalBound(ratios, tuple(blind), hidden(errors.sums, truth))


def error_ratio(name: str, tensor: torch.Tensor, errors: TwinErrors) -> float:
    """The ratio of a tensor's error to the sum of the twins' errors, in the norm in which it is larger.

    Infinity for an integer that differs, and for a tensor of another shape.
    """
    true = errors.exact.tensors[name]
    if name not in errors.sums or tensor.shape != true.shape:
        return 0.0 if torch.equal(tensor, true) else math.inf
    return _ratio(norms(tensor.double() - true), errors.sums[name])


def _ratio(error: Norms, allowed: Norms) -> float:
    """The larger ratio of the two norms. A zero error is always right; if twins overflow, no other error is."""
    if not any(error):
        return 0.0
    return max(e / a if 0 < a < math.inf else math.inf for e, a in zip(error, allowed, strict=True))
