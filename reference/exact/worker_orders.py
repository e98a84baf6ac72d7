"""Prove the losses of one linear layer exact under every order in which asynchronous workers update it.

All orders add the same updates, because no gradient of an exact case depends on the weights. A loss depends on the
updates so far.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from reference.exact.exactness import BITS, WANTED, NotExact
from reference.exact.operator_rules import Grid, grid_of_values
from reference.trace.trace import Trace


def require_exact_in_any_order(trace: Trace, lr: float, batches: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Refuse a case in which the loss of some order might round. The arguments are those of `most_in_any_order`.

    Raises:
        NotExact: a loss needs more bits than a float64 has.
    """
    misfit = most_in_any_order(trace, lr, batches).misfit(BITS[torch.float64])
    if misfit:
        raise NotExact(f"the loss of some order of the workers {misfit}; {WANTED}")


def most_in_any_order(trace: Trace, lr: float, batches: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> Grid:
    """Bound the losses of one linear layer under every order of its updates; ``trace`` has them in one order.

    A loss is largest if all updates of weight and bias have one sign. ``batches``: all workers' batches, of integers.
    """
    terms: dict[str, list[torch.Tensor]] = {"weight": [], "bias": []}
    for key, tensor in trace.tensors.items():
        place, _, name = key.rpartition("/")
        if place == "initial" or place.endswith("/gradient"):
            terms[name].append(tensor.abs() * (1 if place == "initial" else lr))
    every = torch.cat([tensor.flatten() for found in terms.values() for tensor in found])
    weight, bias = (torch.stack(found).sum(0) for found in terms.values())
    loss = max(float(((data.abs() @ weight.T + bias) * target.abs()).sum()) for data, target in batches)
    return Grid(grid_of_values(every.numpy()).unit, loss)
