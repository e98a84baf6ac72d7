"""Tell which errors in a run's result the bound of a natural case would notice, and which rounding hides.

If rounding grows from step to step, the bound may be so wide that wrong runs pass too. So the verdict names the tensors
of the result that the bound checks only roughly. A run is neither right nor wrong if one of them may be rounding alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch

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
