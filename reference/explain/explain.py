"""Explain the difference of a trace: what came before it and is equal, its size, and the mistake that gives it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from reference.explain.difference import View, close, difference_of, same_bits
from reference.explain.mistakes import (
    Hypothesis,
    data_mistakes,
    factor_mistakes,
    optimizer_mistakes,
    other_tensor,
    part_mistakes,
    precision_mistakes,
    reward_mistakes,
    tensor_mistakes,
)
from reference.explain.step_models import step_model_of
from reference.trace.names import counted_from_one, in_causal_order, place_of, structure
from reference.trace.trace import Named, Trace, ulps


def hypotheses(view: View) -> Iterator[Hypothesis]:
    """Yield what may be wrong, the simplest first."""
    yield from tensor_mistakes(view)
    if view.stage == "parameter":
        yield from optimizer_mistakes(view)
    yield from factor_mistakes(view)
    if view.stage == "loss":
        yield from reward_mistakes(view)
    if view.step_model is not None and view.stage in ("loss", "gradient"):
        yield from part_mistakes(view)
        yield from data_mistakes(view)
    yield from precision_mistakes(view)
    yield from other_tensor(view)


@dataclass(frozen=True)
class Explanation:
    """``cause``: a hypothesis's id, ``structure``, ``nan``, ``rounding``, ``unexplained``; empty if nothing differs."""

    cause: str
    lines: Sequence[str]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def explain(yours: Named, twin: Trace) -> Explanation:
    """Explain how ``yours`` differs from the twin's trace. Of names that one side lacks, it says so and goes on."""
    lines = [*structure(yours, twin.tensors), *_misshapen(yours, twin.tensors)]
    if counted_from_one(yours, twin.tensors):  # equal names are other steps
        return Explanation("structure", lines)
    common = {name: _shaped(tensor, twin.tensors[name]) for name, tensor in yours.items() if name in twin.tensors}
    names = in_causal_order(name for name, tensor in common.items() if tensor is not None)
    both = {name: tensor for name in names if (tensor := common[name]) is not None}
    if name := next((n for n in names if _has_nan(both[n]) and not _has_nan(twin.tensors[n])), None):
        return Explanation("nan", [*lines, *_nan(name, names, both, twin)])
    differing = [name for name in names if not same_bits(both[name], twin.tensors[name])]
    if not differing:
        return Explanation("structure" if lines else "", lines)
    first = next((n for n in differing if twin.case.is_exact or not close(both[n], twin.tensors[n])), None)
    if first is None:
        return Explanation("structure" if lines else "rounding", [*lines, _rounding(differing, names)])
    cause, found = _cause(View(both, twin, first, step_model_of(twin)))
    return Explanation(cause, [*lines, *_where(first, differing, names, both, twin), *found])


def _cause(view: View) -> tuple[str, list[str]]:
    """Try every hypothesis; bits count more than a value within rounding."""
    found: dict[str, list[Hypothesis]] = {"bits": [], "rounding": []}
    for each in hypotheses(view):
        how = view.holds(each.candidate, each.terms)
        if how and each.id not in [other.id for other in found[how]]:
            found[how].append(each)
    if found["bits"]:
        return found["bits"][0].id, [f"It is, bit for bit: {_either(found['bits'])}"]
    if found["rounding"] and not view.case.is_exact:  # an exact case has no rounding
        return found["rounding"][0].id, [f"It is, up to rounding: {_either(found['rounding'])}"]
    return "unexplained", ["Unexplained: none of the known mistakes gives these numbers."]


def _either(found: Sequence[Hypothesis]) -> str:
    """All mistakes that give the numbers, because the numbers cannot tell between them."""
    return "; or: ".join(each.text for each in found)


def _where(first: str, differing: Sequence[str], names: Sequence[str], yours: Named, twin: Trace) -> list[str]:
    mine, reference = yours[first], twin.tensors[first]
    alike = mine.shape == reference.shape
    distance = ulps(mine, reference, False) if alike and not (_has_nan(mine) or _has_nan(reference)) else 0
    before = names.index(first)
    step, stage = place_of(first)
    where = f"step {step:04d}, {stage}" if step >= 0 else stage
    return [
        f"First difference: {where}. The {before} tensors before it are {_equal(names[:before], differing)}; "
        f"{len(differing)} of {len(names)} differ.",
        *([str(difference_of(first, mine, reference, distance, exact=twin.case.is_exact))] if alike else []),
    ]


def _equal(before: Sequence[str], differing: Sequence[str]) -> str:
    return "equal but for rounding" if set(before) & set(differing) else "equal"


def _rounding(differing: Sequence[str], names: Sequence[str]) -> str:
    return (
        f"{len(differing)} of {len(names)} tensors differ by rounding only, the first is {differing[0]}: "
        "sums in another order, or fused operations?"
    )


def _nan(name: str, names: Sequence[str], yours: Named, twin: Trace) -> list[str]:
    count = int(yours[name].isnan().sum())
    line = f"NaN begins in {name}: {count} of {yours[name].numel()} numbers, where the reference has none."
    return [line, f"The {names.index(name)} tensors before it have none."]


def _misshapen(yours: Named, reference: Named) -> list[str]:
    lines = []
    for name in in_causal_order(set(yours) & set(reference)):
        mine, wanted = yours[name], reference[name]
        if mine.shape != wanted.shape:
            hint = ": one number, but with a dimension" if mine.numel() == wanted.numel() == 1 else ""
            lines.append(f"{name}: yours has shape {tuple(mine.shape)}, the reference's {tuple(wanted.shape)}{hint}")
        if mine.dtype != wanted.dtype:
            lines.append(f"{name}: yours is {mine.dtype}, the reference's {wanted.dtype}")
    return lines


def _shaped(mine: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor | None:
    """Yours in the reference's dtype, and in its shape where only a dimension of 1 is too many; None: incomparable."""
    mine = mine.to(wanted.dtype) if mine.dtype != wanted.dtype else mine
    if mine.shape == wanted.shape:
        return mine
    if [n for n in mine.shape if n != 1] == [n for n in wanted.shape if n != 1]:
        return mine.reshape(wanted.shape)
    return mine if mine.dim() == wanted.dim() == 2 and mine.shape == wanted.t().shape else None


def _has_nan(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and bool(tensor.isnan().any())
