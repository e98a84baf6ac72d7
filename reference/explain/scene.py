"""What a tutorial's twin has apart at one step: each part of a gradient, and the batches that it could be taken of.

A part is what one trainer, worker, pass or micro-batch computes. The reference's gradient is the parts' sum over
``divisor``. Every scene computes with the tutorial's own functions, at any parameters and of any batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from reference.explain.causal_order import own_name
from reference.trace.trace import Named, Trace

Batch = tuple[torch.Tensor, ...]
# Loss and gradients by the model's own names.
Part = tuple[torch.Tensor, dict[str, torch.Tensor]]
# A mistake's id, what it is, and the part that a program with it computes.
Variant = tuple[str, str, Callable[[str], Part | None]]


class Scene(ABC):
    """One tutorial's step. ``case`` and ``twin`` are the reference's."""

    # Whether several parts are added into one gradient, and what one part is called.
    summed = True
    word = "trainer"

    def __init__(self, case: Any, twin: Trace) -> None:
        self.case, self.twin = case, twin

    @property
    def divisor(self) -> int:
        """By what the sum of the parts is divided."""
        return 1

    @abstractmethod
    def names(self, step: int) -> Sequence[str]:
        """Whose parts a step has, in the order in which they are added."""

    @abstractmethod
    def batch(self, name: str, step: int) -> Batch | None:
        """What ``name`` computes of at ``step``; None if there is no such batch."""

    @abstractmethod
    def part(self, name: str, parameters: Named, batch: Batch, step: int) -> Part:
        """Compute one part of ``step`` at these parameters, which have the model's own names."""

    def variants(self, step: int) -> Iterator[Variant]:
        """Yield mistakes that only this tutorial has."""
        yield from ()

    def taken_at(self, step: int) -> int:
        """Before which step the parameters are those at which this step's gradients are taken."""
        return step

    def parameters(self, step: int, name: str) -> dict[str, torch.Tensor] | None:
        """The reference's parameters and buffers before ``step``, as ``name`` has them; None if there are none."""
        if step < 0 or step > self.last + 1:
            return None
        prefix = (f"{step - 1:04d}/parameter/", f"{step - 1:04d}/buffer/") if step else ("initial/",)
        return {own_name(key): tensor for key, tensor in self.twin.tensors.items() if key.startswith(prefix)}

    @property
    def last(self) -> int:
        """The number of the last step."""
        return max((int(name[:4]) for name in self.twin.tensors if name[:4].isdigit()), default=-1)

    def model_name(self, name: str) -> tuple[str | None, str]:
        """Of which part a gradient's own name tells, None for all of them, and its name in the model."""
        return None, name


def functional(
    model: nn.Module, parameters: Named, inputs: torch.Tensor
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Run ``model`` with other parameters; returns its outputs, and the leaves of which gradients can be taken."""
    trained = {name for name, _ in model.named_parameters()}
    leaves = {name: tensor.detach().clone().requires_grad_() for name, tensor in parameters.items() if name in trained}
    buffers = {name: tensor.clone() for name, tensor in parameters.items() if name not in trained}
    outputs: torch.Tensor = torch.func.functional_call(model, {**leaves, **buffers}, (inputs,))
    return outputs, leaves


def gradients(loss: torch.Tensor, leaves: Named) -> dict[str, torch.Tensor]:
    """Gradients of ``loss`` by name."""
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return {
        name: torch.zeros_like(leaf) if each is None else each
        for (name, leaf), each in zip(leaves.items(), found, strict=True)
    }
