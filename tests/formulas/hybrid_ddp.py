"""The trace of ``hybrid_ddp``: SGD on the mean of the trainers' gradients, for a table and two dense layers.

Draws. The table (rows, dim) as torch draws it, in float32, from a generator of ``sparse``; the two dense layers from
one of ``dense``. With exact arithmetic the parameters of each are then replaced by integers from -1 to 1, in the
model's order, from another generator of that name. One class of each row from a generator of ``votes``: the same for
all trainers and steps. In each step, from a generator of the trainer's name, rows (batch_size, bag).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional as F

from tests.formulas.common import Tensors, default_draws, draws, recorded

TABLE = "ps/weight"


def initial(case: Any) -> Tensors:
    """Draw the table and the dense part."""
    with default_draws(case.seed, "sparse"):
        sparse = {TABLE: torch.nn.EmbeddingBag(case.rows, case.dim).weight.detach()}
    with default_draws(case.seed, "dense"):
        layers = {"0": torch.nn.Linear(case.dim, case.hidden), "2": torch.nn.Linear(case.hidden, case.num_classes)}
        dense = {name: value.detach() for name, value in torch.nn.ModuleDict(layers).named_parameters()}
    values = {**sparse, **dense}
    if case.arithmetic == "exact":
        numbers = {part: draws(case.seed, part) for part in ("sparse", "dense")}
        for name, value in values.items():
            part = "sparse" if name == TABLE else "dense"
            values[name] = torch.randint(-1, 2, value.shape, generator=numbers[part])
    return {name: value.to(getattr(torch, case.dtype)) for name, value in values.items()}


def batches(case: Any, trainer: str) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Draw each bag's rows, and count: the class with most votes wins, of equals the lowest."""
    votes = torch.randint(case.num_classes, (case.rows,), generator=draws(case.seed, "votes")).tolist()
    numbers = draws(case.seed, trainer)
    while True:
        bags = torch.randint(case.rows, (case.batch_size, case.bag), generator=numbers)
        ballots = [[votes[row] for row in bag] for bag in bags.tolist()]
        winners = [min(Counter(ballot).items(), key=lambda one: (-one[1], one[0]))[0] for ballot in ballots]
        yield bags, torch.tensor(winners)


def derived(case: Any, values: Tensors, bags: torch.Tensor, classes: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
    """Derive the mean cross entropy, or with exact arithmetic the sum of all scores, that of the right class twice."""
    leaves = {name: value.clone().requires_grad_() for name, value in values.items()}
    table, *dense = leaves.values()
    rows = F.embedding_bag(bags, table, mode="sum")
    scores = F.linear(F.linear(rows, dense[0], dense[1]).relu(), dense[2], dense[3])
    if case.arithmetic == "exact":
        loss = scores.sum() + scores.gather(1, classes[:, None]).sum()
    else:
        loss = F.cross_entropy(scores, classes)
    found = torch.autograd.grad(loss, list(leaves.values()))
    return loss.detach(), dict(zip(leaves, found, strict=True))


def mean(case: Any, name: str, gradients: list[torch.Tensor]) -> torch.Tensor:
    """Add in rank order, then divide. DDP's own allreduce, of the dense part, multiplies each by 1/n before it adds."""
    count = len(gradients)
    first = case.accumulation == "allreduce" and name != TABLE
    total, *others = [gradient * (1 / count) for gradient in gradients] if first else gradients
    for other in others:
        total = total + other
    return total if first else total / count


def trace(case: Any, given: Tensors) -> Tensors:
    """Train one table and one dense part, and record the latter once for each trainer's replica."""
    names = [f"trainer{number}" for number in range(1, case.trainers + 1)]
    data = {name: batches(case, name) for name in names}
    values = initial(case)

    def placed(prefix: str, tensors: Tensors) -> Tensors:
        dense = {key: tensor for key, tensor in tensors.items() if key != TABLE}
        replicas = {f"{prefix}/{name}/{key}": tensor for name in names for key, tensor in dense.items()}
        return {f"{prefix}/{TABLE}": tensors[TABLE], **replicas}

    found = placed("initial", values)
    for step in range(case.steps):
        each = {name: derived(case, values, *next(data[name])) for name in names}
        found |= {f"{step:04d}/loss/{name}": loss for name, (loss, _) in each.items()}
        means = {key: mean(case, key, [gradients[key] for _, gradients in each.values()]) for key in values}
        values = {key: torch.sub(value, means[key], alpha=case.lr) for key, value in values.items()}
        found |= placed(f"{step:04d}/gradient", means) | placed(f"{step:04d}/parameter", values)
    return recorded(case, found, case.steps - 1)
