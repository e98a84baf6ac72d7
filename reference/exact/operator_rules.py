"""A rule for each operation that an exact case may use: the terms of its sums. Without a rule there is no proof.

The product of a sum and a number is taken as the sum of its terms' products. A program that computes one sum over all
factors adds the same terms in another order.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from reference.trace.case import power_of_two

if TYPE_CHECKING:
    from reference.exact.exactness import ExactnessProof as Proof

# A factor that is a power of two, such as lr, may be multiplied earlier or later. Between these exponents the product
# of two numbers neither overflows nor loses bits.
SMALLEST, LARGEST = -511, 511

_ROUNDING = 1 + 2.0**-20  # more than the relative error of a float64 sum of fewer than 2**32 sizes


@dataclass(frozen=True)
class Grid:
    """Numbers that are whole multiples of 2**unit. The sizes of each number's terms add up to at most ``most``."""

    unit: int
    most: float

    def __post_init__(self) -> None:
        if math.isnan(self.most):  # 0 times infinity: nothing is known about the sum
            object.__setattr__(self, "most", math.inf)

    def __add__(self, other: Grid) -> Grid:
        return Grid(min(self.unit, other.unit), self.most + other.most)

    def __mul__(self, other: Grid) -> Grid:
        product = Grid(self.unit + other.unit, self.most * other.most)
        return product if (self.most and other.most) or math.isinf(product.most) else ZERO

    def times(self, count: float) -> Grid:
        """The grid of sums of at most ``count`` of these numbers."""
        return Grid(self.unit, self.most * count)

    @property
    def bits(self) -> int:
        """The bits that a significand needs to hold every partial sum; infinitely many if a sum is not finite."""
        if self.most == 0:
            return 0
        most = self.most * _ROUNDING
        return math.frexp(most)[1] - self.unit if math.isfinite(most) else sys.maxsize

    def misfit(self, allowed: int) -> str:
        """Say why a partial sum can be inexact in numbers with ``allowed`` bits; empty if none can."""
        if not math.isfinite(self.most):
            return "is not finite"
        if self.bits > allowed:
            return f"needs {self.bits} bits, and {allowed} are exact"
        if self.unit < SMALLEST:
            return f"has digits below 2**{SMALLEST}"
        return f"has numbers above 2**{LARGEST}" if self.most > 2.0**LARGEST else ""


ZERO = Grid(1024, 0.0)


def sizes(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Absolute values as float64."""
    found: np.ndarray[Any, Any] = np.abs(tensor.detach().cpu().double().numpy())
    return found


def grid_of_values(values: np.ndarray[Any, Any]) -> Grid:
    """Make the grid of these numbers: their largest common unit, and their largest size."""
    found = values[values != 0]
    if not found.size:
        return ZERO
    if not np.isfinite(found).all():
        return Grid(0, math.inf)
    fractions, exponents = np.frexp(found)
    significands = (fractions * 2.0**53).astype(np.int64)
    zeros = np.frexp((significands & -significands).astype(np.float64))[1] - 1  # trailing zeros of each significand
    return Grid(int((exponents - 53 + zeros).min()), float(np.abs(found).max()))


def either(one: Grid, other: Grid) -> Grid:
    """The grid that holds the numbers of both."""
    return Grid(min(one.unit, other.unit), max(one.most, other.most))


Arguments = Sequence[Any]
Options = Mapping[str, Any]


Rule = Callable[["Proof", Arguments, Options], "Grid | list[Grid | None] | None"]


def tensors_of(found: Any) -> list[torch.Tensor]:
    """Find every tensor in nested arguments."""
    if isinstance(found, torch.Tensor):
        return [found]
    return [tensor for each in found for tensor in tensors_of(each)] if isinstance(found, list | tuple) else []


def values_only(proof: Proof, args: Arguments, kwargs: Options) -> Grid | None:
    """An operation that chooses among values or compares them: it is exact, and its result is no sum that goes on."""
    return None


def moved(proof: Proof, args: Arguments, kwargs: Options) -> Grid | None:
    """An operation that only moves values: a sum still goes on."""
    tensors = [tensor for tensor in tensors_of(args) if tensor.is_floating_point()]
    if not any(proof.sum_of(tensor) for tensor in tensors):
        return None
    found = ZERO
    for tensor in tensors:
        found = either(found, proof.grid(tensor))
    return found


def masked(proof: Proof, args: Arguments, kwargs: Options) -> Grid | None:
    """A ReLU and its gradient: multiplication by 1 or 0, so a sum still goes on."""
    return proof.sum_of(args[0])


def converted(proof: Proof, args: Arguments, kwargs: Options) -> Grid | None:
    """A conversion to another dtype, or a copy into one: it is exact if the sum would be exact in that dtype."""
    source, target = args[-1] if isinstance(args[-1], torch.Tensor) else args[0], kwargs.get("dtype")
    wanted = target or (args[0].dtype if isinstance(args[0], torch.Tensor) else source.dtype)
    if wanted.is_floating_point and (not source.is_floating_point() or wanted.itemsize < source.element_size()):
        proof.require(proof.grid(source), (source, torch.empty(0, dtype=wanted)))
    return proof.sum_of(source)


def summed(proof: Proof, args: Arguments, kwargs: Options) -> Grid:
    """A sum of all elements, or along some dimensions."""
    tensor, dims = args[0], tuple(args[1]) if len(args) > 1 and args[1] else None
    known = proof.sum_of(tensor)
    if known is not None:
        count = tensor.numel() if dims is None else int(np.prod([tensor.shape[dim] for dim in dims]))
        return proof.require(known.times(count), (tensor,))
    totals = proof.sizes(tensor).sum(axis=dims)
    return proof.require(Grid(proof.grid(tensor).unit, float(np.max(totals, initial=0.0))), (tensor,))


def added(proof: Proof, args: Arguments, kwargs: Options) -> Grid:
    """The sum or difference of two tensors, the second times ``alpha``."""
    first, second = args[:2]
    scaled = proof.grid(second) * proof.grid(kwargs.get("alpha", 1))
    return proof.require(proof.grid(first) + scaled, (first, second))


def multiplied(proof: Proof, args: Arguments, kwargs: Options) -> Grid | None:
    """A product element by element. A sum times a number is still a sum."""
    first, second = args[:2]
    product = proof.require(proof.grid(first) * proof.grid(second), (first, second))
    return product if proof.sum_of(first) or proof.sum_of(second) else None


def _single(number: Any) -> bool:
    return not isinstance(number, torch.Tensor) or number.numel() == 1


def divided(proof: Proof, args: Arguments, kwargs: Options) -> Grid | None:
    """A division by a power of two. No other divisor is exact, and equal to multiplication by its inverse."""
    first, second = args[:2]
    if not _single(second) or not float(second) or not power_of_two(float(second)):
        raise proof.refusal(f"a division by {float(second) if _single(second) else 'a tensor'}, no power of two")
    return multiplied(proof, (first, 1 / float(second)), {})


def raised(proof: Proof, args: Arguments, kwargs: Options) -> Grid | None:
    """A power with the exponent 1 or 2."""
    base, exponent = args[:2]
    if exponent not in (1, 2):
        raise proof.refusal(f"no proof for the power of {exponent}")
    return proof.sum_of(base) if exponent == 1 else multiplied(proof, (base, base), {})


def product(proof: Proof, args: Arguments, kwargs: Options) -> Grid:
    """The product of two matrices, or of a matrix and a vector."""
    left, right = args[:2]
    unit = proof.grid(left).unit + proof.grid(right).unit
    with np.errstate(all="ignore"):  # numbers that are not finite are refused
        most = float(np.max(proof.sizes(left) @ proof.sizes(right), initial=0.0))
    return proof.require(Grid(unit, most), (left, right))


def product_and_sum(proof: Proof, args: Arguments, kwargs: Options) -> Grid:
    """``beta * args[0] + alpha * args[1] @ args[2]``"""
    start = proof.grid(args[0]) * proof.grid(kwargs.get("beta", 1))
    rest = product(proof, args[1:], {}) * proof.grid(kwargs.get("alpha", 1))
    return proof.require(start + rest, args[:3])


def bags(proof: Proof, args: Arguments, kwargs: Options) -> Grid:
    """Sums of rows of a table; the arguments are weight, indices, offsets, ..., with mode as the fifth."""
    weight, indices, offsets, _, mode, _, weights = (*args, *(None,) * 4)[:7]
    if mode or weights is not None:
        raise proof.refusal("no proof for bags other than plain sums")
    ends = torch.cat((offsets, torch.tensor([indices.numel()], device=offsets.device)))
    return proof.require(proof.grid(weight).times(_most(ends.diff())), (weight, indices))


def bags_backward(proof: Proof, args: Arguments, kwargs: Options) -> Grid:
    """The gradient of bags: a row's gradient is the sum of its bags' gradients; the arguments are grad, indices, ..."""
    return proof.require(proof.grid(args[0]).times(_most(args[1].bincount())), args[:2])


def _most(counts: torch.Tensor) -> int:
    return int(counts.max()) if counts.numel() else 0


def sgd(proof: Proof, args: Arguments, kwargs: Options) -> list[Grid | None]:
    """torch's step of SGD over lists of parameters, gradients and momentum, with each of its terms.

    After the step a parameter is a number, because it is recorded; momentum is a sum that goes on.
    """
    if kwargs["weight_decay"] or kwargs["dampening"] or kwargs["nesterov"]:
        raise proof.refusal("no proof for SGD with weight decay, dampening or Nesterov's momentum")
    parameters, gradients, velocities = (*args[:2], args[2] or [None] * len(args[0]))
    changes: list[Grid | None] = []
    for parameter, gradient, velocity in zip(parameters, gradients, velocities, strict=True):
        change = proof.grid(gradient)
        if velocity is not None and not kwargs["is_first_step"]:
            change += proof.grid(velocity) * proof.grid(kwargs["momentum"])
            proof.require(change, (velocity, gradient))
        step = change * proof.grid(kwargs["lr"])
        proof.require(proof.grid(parameter) + step, (parameter, gradient))
        changes += [change] if velocity is not None else []
    return [*[None] * len(parameters), *map(proof.sum_of, gradients), *changes]


def each(rule: Callable[[Proof, Arguments, Options], Grid | None]) -> Rule:
    """The rule for lists: apply ``rule`` to each element of the first list, with the second's or with one number."""

    def of_lists(proof: Proof, args: Arguments, kwargs: Options) -> list[Grid | None]:
        first, second = args
        seconds = second if isinstance(second, list | tuple) else [second] * len(first)
        return [rule(proof, pair, kwargs) for pair in zip(first, seconds, strict=True)]

    return of_lists


_CHOSEN = """abs sign eq ne lt le gt ge argmax argmin max min amax amin maximum minimum
zeros_like ones_like empty_like full_like rand_like zero fill scatter uniform normal random bernoulli one_hot isnan
isinf isfinite frexp aminmax all any _local_scalar_dense item equal new_zeros new_empty new_ones new_full"""
_MOVED = """clone cat stack index index_select gather where neg flip contiguous _unsafe_view lift_fresh slice_backward
select_backward"""

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_CHOSEN.split(), values_only),
    **dict.fromkeys(_MOVED.split(), moved),
    **dict.fromkeys(("relu", "threshold_backward"), masked),
    **dict.fromkeys(("_to_copy", "copy"), converted),
    **dict.fromkeys(("add", "sub"), added),
    **dict.fromkeys(("mm", "bmm", "mv", "dot"), product),
    **dict.fromkeys(("addmm", "addmv"), product_and_sum),
    "sum": summed,
    "mul": multiplied,
    "div": divided,
    "pow": raised,
    "_embedding_bag": bags,
    "_embedding_bag_forward_only": bags,
    "_embedding_bag_backward": bags_backward,
    "_embedding_bag_dense_backward": bags_backward,
    "_fused_sgd": sgd,
    "_foreach_add": each(added),
    "_foreach_mul": each(multiplied),
}
