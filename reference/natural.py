"""Natural cases: is a float32 run no worse than the float32 twin, judged by a float64 twin?"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from reference.trace import Trace, TraceError, check_comparable

# A run may be this many times as far from the float64 twin as the float32 twin is. Two correct float32
# computations that differ only in the order of their sums have errors of one size, not equal errors.
MULTIPLE = 4.0


@dataclass(frozen=True)
class NaturalBound:
    """Per tensor, the run's error over the error it may have; at most 1 holds."""

    ratios: dict[str, float]

    @property
    def holds(self) -> bool:
        return all(ratio <= 1 for ratio in self.ratios.values())

    @property
    def worst(self) -> tuple[str, float]:
        return max(self.ratios.items(), key=lambda item: item[1])


def natural_bound(run: Trace, twin: Trace, exact: Trace) -> NaturalBound:
    """Hold ``run`` and ``twin`` (float32) against ``exact`` (float64), tensor by tensor, in the 2-norm.

    A tensor that the twin happens to get exactly may still be off by one rounding of its own norm.

    Raises:
        TraceError: ``exact`` is not in float64, a tensor without counterparts, another shape, NaN, or
            an integer tensor that differs.
    """
    check_comparable(run.tensors, twin.tensors)
    check_comparable(run.tensors, exact.tensors, same_dtype=False)
    for name, tensor in exact.tensors.items():
        if tensor.is_floating_point() and tensor.dtype != torch.float64:
            raise TraceError(f"{name}: {tensor.dtype} in the twin that is to be float64")
    ratios = {}
    for name, tensor in run.tensors.items():
        if not tensor.is_floating_point():
            if not torch.equal(tensor, exact.tensors[name]):
                raise TraceError(f"{name}: integers differ from the float64 twin's")
            continue
        truth, other = exact.tensors[name].double(), twin.tensors[name]
        norm = torch.linalg.vector_norm
        usual = float(norm(other.double() - truth))
        allowed = MULTIPLE * max(usual, torch.finfo(tensor.dtype).eps * float(norm(truth)))
        error = usual
        if not torch.equal(tensor, other):
            error = float(norm(tensor.double() - truth))
        ratios[name] = 0.0 if error == 0 else error / allowed if allowed > 0 else float("inf")
    return NaturalBound(ratios)
