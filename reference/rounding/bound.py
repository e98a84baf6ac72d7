"""Bound a natural case's error: a run may be no farther from its float64 twin than rounding takes correct programs.

Twins that compute the same sums in other orders (`reordering`) measure how far that is. A correct run is one more
program of that kind, and its error may be as large as the sum of theirs. The errors are compared in two norms: the
2-norm of a tensor, and its largest element, which shows one wrong element among millions. The largest of the twins'
errors would be no bound: of 18 equal programs each has the largest error once in 18 times, and a trace has thousands of
tensors. Their sum is the error of a run that mixes the roundings of all twins, none of which cancels another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from reference.rounding.sensitivity import Hidden, hidden
from reference.rounding.twin_errors import Norms, TwinErrors, check_truth, floats, norms, other_decision, twin_errors
from reference.trace.trace import Trace, TraceError, check_comparable


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
            text += f"; there is no bound for {len(self.blind)} tensors, which are rounding alone"
        if self.holds and self.hidden.rough:
            text += f"; {self.hidden}"
        return text


def rounding_bound(run: Trace, twins: Iterable[Trace], exact: Trace) -> NaturalBound:
    """Compare ``run`` with ``exact``, its float64 twin, by the errors of ``twins``: correct runs in the run's dtype.

    Raises:
        Undecided: the run takes another decision than the float64 twin, and so does a twin; or all twins do; or a
            twin's tensor has no counterpart or another shape or is NaN.
        TraceError: ``exact`` is not in float64, there are no twins, a tensor of the run has no counterpart or another
            shape or dtype or is NaN, or an integer differs.
    """
    check_truth(exact)
    if not other_decision(run, exact):  # before any twin is computed, which takes long
        check_comparable(run.tensors, exact.tensors, same_dtype=False)
    return bound_of(run, twin_errors(twins, exact))


def bound_of(run: Trace, errors: TwinErrors) -> NaturalBound:
    """Compare a run's errors with those of its twins, which may be those of several runs. Raises as `rounding_bound`.

    A tensor whose allowed error is as large as itself is blind.
    """
    other = other_decision(run, errors.exact)
    if not other:
        check_comparable(run.tensors, errors.exact.tensors, same_dtype=False)
        errors.check_dtypes(run)
        if errors.unusable:
            raise Undecided(errors.unusable)
    _check_decided(other, errors.counted, errors.left_out)
    truth = floats(errors.exact)
    ratios = {name: _ratio(norms(run.tensors[name].double() - true), errors.sums[name]) for name, true in truth.items()}
    blind = (name for name, size in errors.sizes.items() if errors.sums[name][0] >= size[0] > 0)
    return NaturalBound(ratios, tuple(blind), hidden(errors.sums, truth))


def _check_decided(other: str, counted: int, left_out: int) -> None:
    if other and left_out:
        raise Undecided(f"{other}: integers differ from the float64 twin's, as in {left_out} correct twins: undecided")
    if other:
        raise TraceError(f"{other}: integers differ from the float64 twin's")
    if left_out and not counted:
        raise Undecided(f"all {left_out} twins take other decisions than the float64 twin: undecided")
    if not counted:
        raise TraceError("got no twin to measure rounding with, wanted at least one")


def _ratio(error: Norms, allowed: Norms) -> float:
    """The larger ratio of the two norms. A zero error is always right; if twins overflow, no other error is."""
    if not any(error):
        return 0.0
    return max(e / a if 0 < a < math.inf else math.inf for e, a in zip(error, allowed, strict=True))
