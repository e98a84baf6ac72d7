"""The trace of ``dist_autograd``: (c + 1) × Σ (a + b)² in context c, derived by hand.

Draws: a, (side, side) in float32, from a generator of ``worker1``, b from one of ``worker2``: standard normal, or with
exact arithmetic integers from -4 to 4.
"""

from __future__ import annotations

from typing import Any

import torch

from tests.formulas.common import Tensors, draws, recorded

OWNERS = ("worker1", "worker2")


def initial(case: Any, owner: str) -> torch.Tensor:
    """Draw one owner's parameter."""
    numbers, shape = draws(case.seed, owner), (case.side, case.side)
    exact = case.arithmetic == "exact"
    drawn = torch.randint(-4, 5, shape, generator=numbers) if exact else torch.randn(shape, generator=numbers)
    return drawn.to(getattr(torch, case.dtype))


def trace(case: Any, given: Tensors) -> Tensors:
    """Take the derivative by a, which is that by b: 2 (c + 1) (a + b).

    Every context has the a and b of before the step. Then the contexts' gradients are applied, one after the other.
    """
    values = [initial(case, owner) for owner in OWNERS]
    found = {f"initial/{owner}": value.clone() for owner, value in zip(OWNERS, values, strict=True)}
    for step in range(case.steps):
        total = values[0] + values[1]
        for context in range(case.contexts):
            gradient = 2 * (context + 1) * total
            found[f"{step:04d}/loss/context{context}"] = (context + 1) * (total * total).sum()
            for place, owner in enumerate(OWNERS):
                found[f"{step:04d}/gradient/context{context}/{owner}"] = gradient
                values[place] = torch.sub(values[place], gradient, alpha=case.lr)
        found |= {f"{step:04d}/parameter/{owner}": value for owner, value in zip(OWNERS, values, strict=True)}
    return recorded(case, found, case.steps - 1)
