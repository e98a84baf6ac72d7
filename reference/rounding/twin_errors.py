"""Measure how far rounding takes correct twins of a run from its float64 twin, the sum of whose errors is the bound."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from reference.trace.trace import Trace, TraceError, check_comparable

# The 2-norm of a tensor, and its largest element.
Norms = tuple[float, float]


@dataclass(frozen=True)
class TwinErrors:
    """The errors of twins. They are the same for all runs of a case that leave its twins no other order.

    ``exact``: the float64 twin; ``sizes``: per tensor of it, its norms; ``sums``: per tensor, the sum of the twins'
    errors; ``dtypes``: those of the twins' tensors. ``counted``: the number of twins that take the float64 twin's
    decisions; ``left_out``: that of the others. ``unusable``: why a counted twin, which may hold NaN, has no error;
    empty if each has one.
    """

    exact: Trace
    sizes: dict[str, Norms]
    sums: dict[str, Norms]
    dtypes: dict[str, torch.dtype]
    counted: int
    left_out: int
    unusable: str = ""

    def check_dtypes(self, run: Trace) -> None:
        """Raise TraceError if a tensor has another dtype than the twins'."""
        for name, dtype in self.dtypes.items():
            if run.tensors[name].dtype != dtype:
                raise TraceError(f"{name}: dtypes differ, {run.tensors[name].dtype} and {dtype}")


def twin_errors(twins: Iterable[Trace], exact: Trace) -> TwinErrors:
    """Measure the errors of ``twins`` with the float64 twin ``exact``.

    Each twin's error counts as at least one rounding. Twins that take another decision (an integer) than the float64
    twin are left out. Twins are read one after the other, so that only one is in memory.

    Raises:
        TraceError: ``exact`` is not in float64.
    """
    check_truth(exact)
    truth = floats(exact)
    sizes = {name: norms(true) for name, true in truth.items()}
    sums, dtypes = dict.fromkeys(truth, (0.0, 0.0)), dict[str, torch.dtype]()
    counted, left_out, unusable = 0, 0, ""
    for twin in twins:
        if other_decision(twin, exact):
            left_out += 1
            continue
        counted += 1
        try:
            check_comparable(exact.tensors, twin.tensors, same_dtype=False)
        except TraceError as error:
            unusable = unusable or str(error)
            continue
        for name, true in truth.items():
            sums[name] = _added(sums[name], twin.tensors[name], true, sizes[name])
        dtypes = {name: tensor.dtype for name, tensor in twin.tensors.items()}
    return TwinErrors(exact, sizes, sums, dtypes, counted, left_out, unusable)


def check_truth(exact: Trace) -> None:
    """Raise TraceError if ``exact`` is not in float64."""
    for name, tensor in exact.tensors.items():
        if tensor.is_floating_point() and tensor.dtype != torch.float64:
            raise TraceError(f"{name}: the float64 twin has {tensor.dtype}, wanted torch.float64")


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
