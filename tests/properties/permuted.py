"""Run a program with its sums in another order: matrix products, and sums along dimensions."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

Tensor = torch.Tensor


class Permuted(TorchDispatchMode):
    """In this block every sum is added term by term, in an order drawn from ``seed``."""

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.draws = torch.Generator().manual_seed(seed)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, given = func._schema.name.removeprefix("aten::"), kwargs or {}
        if name == "mm":
            return self.product(*args)
        if name == "addmm" and not given:
            return self.product(args[1], args[2], args[0])
        if name == "sum" and len(args) > 1 and args[1] == [0]:
            return self.added(args[0]).reshape(1, -1) if len(args) > 2 and args[2] else self.added(args[0])
        if name == "sum" and len(args) == 1 and args[0].is_floating_point():
            return self.added(args[0].reshape(-1))
        return func(*args, **given)

    def product(self, left: Tensor, right: Tensor, start: Tensor | None = None) -> Tensor:
        terms = left.T.unsqueeze(2) * right.unsqueeze(1)
        if start is not None:
            terms = torch.cat((terms, start.expand(terms.shape[1:]).unsqueeze(0)))
        return self.added(terms)

    def added(self, terms: Tensor) -> Tensor:
        """Add along the first dimension, one term after the other."""
        total = torch.zeros(terms.shape[1:], dtype=terms.dtype)
        for place in torch.randperm(terms.shape[0], generator=self.draws).tolist():
            total = total + terms[place]
        return total
