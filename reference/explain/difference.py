"""Compare two traces: how close they are, and in which parts they differ."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from reference.explain.step_models import Part, StepModel
from reference.trace.names import own_name, place_of
from reference.trace.trace import Named, Trace

# How many roundings of its largest element two computations of one tensor may differ by. A sum of n terms in another
# order differs by about the square root of n; the largest sums here have a few thousand terms.
ROUNDINGS = 64.0

# A larger distance in ULPs tells nothing: across zero, or from it, it counts all the tiny numbers between.
TELLING_ULPS = 10**6


def eps_of(*tensors: torch.Tensor) -> float:
    """The coarsest relative rounding of the tensors' dtypes; 0 for integers."""
    return max((torch.finfo(each.dtype).eps for each in tensors if each.is_floating_point()), default=0.0)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether all numbers are equal; -0.0 equals 0.0, and NaN nothing."""
    return a.shape == b.shape and a.dtype == b.dtype and bool((a == b).all())


def close(a: torch.Tensor, b: torch.Tensor, eps: float | None = None, terms: float = 0.0) -> bool:
    """Whether the tensors differ by rounding at most: ROUNDINGS of the larger of their largest elements.

    ``terms``: the size of the terms that cancel in a sum, if that is larger.
    """
    if a.shape != b.shape:
        return False
    if a.numel() == 0:
        return True
    left, right = a.double(), b.double()
    if not (left.isfinite().all() and right.isfinite().all()):
        return False
    scale = max(float(left.abs().max()), float(right.abs().max()), terms)
    allowed = ROUNDINGS * (eps_of(a, b) if eps is None else eps) * scale
    return float((left - right).abs().max()) <= allowed


@dataclass(frozen=True)
class Difference:
    """How one tensor differs: in which share of its elements, where first, and by how much at most."""

    name: str
    differing: int
    beyond: str
    elements: int
    index: tuple[int, ...]
    yours: float
    reference: float
    largest: float
    ulps: int

    def __str__(self) -> str:
        where = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        ulps = f" ({self.ulps} ULPs)" if 0 < self.ulps <= TELLING_ULPS else ""
        return (
            f"{self.name}: {self.differing} of {self.elements} numbers differ{self.beyond}, "
            f"by {self.largest:.6g} at most{ulps}; "
            f"the first is {self.name}{where}: yours {self.yours!r}, the reference's {self.reference!r}"
        )


def difference_of(
    name: str, yours: torch.Tensor, reference: torch.Tensor, ulps: int, *, exact: bool = True
) -> Difference:
    """Describe the difference of two tensors of one shape that are not equal; ``ulps``: their distance, 0 for none.

    Without ``exact``, numbers that differ by rounding do not count, if others differ by more.
    """
    left, right = yours.double().flatten(), reference.double().flatten()
    differing, beyond = ~(left == right), ""
    away = (left - right).abs()
    more = differing & ~(away <= ROUNDINGS * eps_of(yours, reference) * float(right.abs().max()))
    if not exact and bool(more.any()):
        differing, beyond = more, " by more than rounding"
    first = int(differing.nonzero()[0])
    return Difference(
        name,
        int(differing.sum()),
        beyond,
        left.numel(),
        tuple(int(each) for each in torch.unravel_index(torch.tensor(first), yours.shape)) if yours.dim() else (),
        float(left[first]),
        float(right[first]),
        float(away[away.isfinite()].max()) if bool(away.isfinite().any()) else math.nan,
        ulps,
    )


def named_numbers(case: Any) -> list[tuple[int, str]]:
    """The whole numbers of a case, from 2, by which a program may multiply or divide by mistake."""
    fields = (
        ("trainers", "trainers"),
        ("workers", "workers"),
        ("observers", "observers"),
        ("num_split", "micro-batches"),
        ("contexts", "passes"),
        ("batch_size", "rows of a batch"),
        ("sequence", "tokens of a sequence"),
        ("num_classes", "classes"),
        ("outputs", "outputs"),
        ("batches", "batches of an epoch"),
        ("bag", "rows of a bag"),
        ("n_steps", "steps of an episode"),
    )
    found = {name: (getattr(case, name), what) for name, what in fields if getattr(case, name, 0) > 1}
    products = (
        ("batch_size", "num_classes"),
        ("batch_size", "outputs"),
        ("batch_size", "sequence"),
        ("batch_size", "trainers"),
    )
    for left, right in products:
        if left in found and right in found:
            number, what = found[left][0] * found[right][0], f"{found[left][1]} * {found[right][1]}"
            found[f"{left}*{right}"] = (number, what)
    rows, splits = getattr(case, "batch_size", 0), getattr(case, "num_split", 1)
    if splits > 1 and rows % splits == 0 and rows > splits:
        found["micro_batch"] = (rows // splits, "rows of a micro-batch")
    return list(found.values())


# The value that a mistake gives a tensor of this name; None if the mistake says nothing about that tensor.
Candidate = Callable[[str], torch.Tensor | None]


@dataclass
class View:
    """``first``: the first tensor that differs. ``yours`` and ``twin`` agree on everything before its stage."""

    yours: Named
    twin: Trace
    first: str
    step_model: StepModel | None

    @property
    def case(self) -> Any:
        return self.twin.case

    @property
    def reference(self) -> Named:
        return self.twin.tensors

    @property
    def step(self) -> int:
        return place_of(self.first)[0]

    @property
    def stage(self) -> str:
        return place_of(self.first)[1]

    @cached_property
    def names(self) -> list[str]:
        """All tensors of that stage that both sides have in one shape, those that do not differ included."""
        return [
            name
            for name, tensor in self.reference.items()
            if place_of(name) == (self.step, self.stage)
            and name in self.yours
            and self.yours[name].numel() == tensor.numel()
        ]

    def holds(self, candidate: Candidate, terms: float = 0.0) -> str:
        """``bits`` or ``rounding`` if the candidate gives yours for every tensor it speaks of, and empty otherwise.

        It must speak of the first difference, and not give the reference's value there. ``terms``: as for `close`.
        """
        wanted = candidate(self.first)
        right = self.reference[self.first]
        if wanted is None or same_bits(wanted, right) or close(wanted, right, terms=terms):
            return ""
        found = "bits"
        for name in self.names:
            value = wanted if name == self.first else candidate(name)
            if value is None:
                continue
            mine = self.yours[name]
            if same_bits(value, mine):
                continue
            if not close(value, mine, terms=terms):
                return ""
            found = "rounding"
        return found

    def before(self, own: str, step: int) -> torch.Tensor | None:
        """The reference's parameter of this name before a step."""
        return self.reference.get(f"{step - 1:04d}/parameter/{own}" if step else f"initial/{own}")

    @cached_property
    def parts(self) -> dict[str, Part]:
        """The parts of this step, at the parameters that they are taken at."""
        assert self.step_model is not None
        return {name: part for name in self.step_model.names(self.step) if (part := self.part(name)) is not None}

    def part(self, name: str, *, batch: Any = None, parameters: int | None = None) -> Part | None:
        """One part, of another batch or at the parameters before another step; None if there are none."""
        assert self.step_model is not None
        found = self.step_model.batch(name, self.step) if batch is None else batch
        step = self.step_model.taken_at(self.step) if parameters is None else parameters
        at = self.step_model.parameters(step, name)
        return None if found is None or not at else self.step_model.part(name, at, found, self.step)

    def from_parts(
        self, combine: Callable[[list[torch.Tensor]], torch.Tensor | None], parts: dict[str, Part]
    ) -> Candidate:
        """The candidate whose losses are the parts' own, and whose gradients ``combine`` makes of the parts'."""

        def candidate(name: str) -> torch.Tensor | None:
            assert self.step_model is not None
            own = own_name(name)
            if self.stage == "loss":
                return parts[own][0] if own in parts else None
            if self.stage != "gradient":
                return None
            only, key = self.step_model.model_name(own)
            if only is not None:
                return parts[only][1].get(key) if only in parts else None
            found = [gradients[key] for _, gradients in parts.values() if key in gradients]
            return combine(found) if found else None

        return candidate

    def usual(self, tensors: list[torch.Tensor]) -> torch.Tensor:
        """Combine the parts of a gradient as the reference does."""
        assert self.step_model is not None
        found = total(tensors)
        return found / self.step_model.divisor if self.step_model.divisor > 1 else found


def total(tensors: list[torch.Tensor]) -> torch.Tensor:
    """Add tensors in their order."""
    return sum(tensors[1:], start=tensors[0])
