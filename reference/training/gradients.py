"""Sum and average gradients for one update of a model, and share the model as a reply."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Sequence

import torch
from torch import nn

Tensors = Sequence[torch.Tensor]


def check_shapes(got: Tensors, wanted: Tensors) -> None:
    """Raise ValueError unless ``got`` has as many tensors as ``wanted``, each of the same shape."""
    if len(got) != len(wanted):
        raise ValueError(f"{len(got)} tensors, wanted {len(wanted)}")
    for index, (tensor, like) in enumerate(zip(got, wanted, strict=True)):
        if tensor.shape != like.shape:
            raise ValueError(f"tensor {index} has shape {tuple(tensor.shape)}, wanted {tuple(like.shape)}")


def report_of(model: nn.Module) -> tuple[Tensors, Tensors]:
    """Make a trainer's report: its model's gradients and buffers, on the CPU."""
    return [p.grad.cpu() for p in model.parameters() if p.grad is not None], [b.cpu() for b in model.buffers()]


def weighted_sum(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return a loss whose sums are all exact on small integers."""
    return (outputs * (labels + 1)).sum()


def backward_in_order(losses: Sequence[torch.Tensor]) -> torch.Tensor:
    """Add the gradients of all losses into ``.grad``, one loss after the other; returns the sum of the losses.

    A backward pass of their sum would add in the order in which the graph was made: that of observers' calls, which is
    any (S0.14).
    """
    for loss in losses:
        loss.backward()
    return torch.stack([*losses]).sum().detach()


def accumulate(model: nn.Module, grads: Tensors, *, first: bool) -> None:
    """Add one trainer's gradients to ``.grad``; the first trainer's become ``.grad``.

    The published code adds to zeros, which `zero_grad` has turned into None by the second round (S2.2).
    """
    with torch.no_grad():
        for parameter, grad in zip(model.parameters(), grads, strict=True):
            if first:
                parameter.grad = grad
            else:
                assert parameter.grad is not None
                parameter.grad += grad


def average(model: nn.Module, count: int, buffers: Sequence[Tensors]) -> None:
    """Divide the summed gradients by ``count``, and set the buffers to the trainers' mean, added in their order."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None and count > 1:
                parameter.grad /= count
        for buffer, *each in zip(model.buffers(), *buffers, strict=True):
            total = each[0].clone()
            if buffer.is_floating_point():
                for other in each[1:]:
                    total += other
                total /= count
            buffer.copy_(total)


def share_model(model: nn.Module) -> nn.Module:
    """Copy a model without its gradients; the copy shares the tensors, which must not change until `unshare`.

    Only the tree of modules is copied. That takes 1 ms for ResNet50, a deep copy takes 9.
    """
    parameters = {id(parameter): nn.Parameter(parameter.detach()) for parameter in model.parameters()}
    return _with_parameters(model, parameters)


def _with_parameters(module: nn.Module, parameters: dict[int, nn.Parameter]) -> nn.Module:
    shallow = copy.copy(module)
    shallow._parameters = {n: None if p is None else parameters[id(p)] for n, p in module._parameters.items()}
    shallow._buffers = {n: None if b is None else b.detach() for n, b in module._buffers.items()}
    shallow._modules = {n: m and _with_parameters(m, parameters) for n, m in module._modules.items()}
    return shallow


def unshare(model: nn.Module) -> None:
    """Give the model new tensors; the old ones stay with the models that share them."""
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()


class Reports:
    """Holds the trainers' reports of a round until they are added, in a fixed order."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.added = 0
        self.grads: dict[str, Tensors] = {}
        self.buffers: dict[str, Tensors] = {}

    def hold(self, trainer: str, grads: Tensors, buffers: Tensors) -> None:
        """Keep a report. Raises ValueError if its shapes are not the model's; later, another trainer's call would."""
        check_shapes(grads, list(self.model.parameters()))
        check_shapes(buffers, list(self.model.buffers()))
        self.grads[trainer], self.buffers[trainer] = grads, buffers

    def next_grads(self, order: Sequence[str]) -> Iterator[tuple[bool, Tensors]]:
        """Yield the gradients that come next in ``order``, up to the first missing ones; and whether they are first."""
        while self.added < len(order) and order[self.added] in self.grads:
            self.added += 1
            yield self.added == 1, self.grads.pop(order[self.added - 1])

    def all_buffers(self, order: Sequence[str]) -> list[Tensors]:
        """Return all trainers' buffers at the end of a round, in ``order``, and forget all reports."""
        held, self.buffers, self.added = self.buffers, {}, 0
        return [held[trainer] for trainer in order]


class Snapshot:
    """Shares a model without copying it; before the model changes, `part` gives it new tensors."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.handed_out = False

    def take(self) -> nn.Module:
        """Return the current model for a reply, whose tensors the transport reads later (S2.5)."""
        self.handed_out = True
        return share_model(self.model)

    def part(self) -> None:
        """Leave the last reply's tensors to the transport and give the model new ones. Call it before any change."""
        if self.handed_out:
            unshare(self.model)
            self.handed_out = False

    def part_soon(self, lock: threading.Lock) -> None:
        """Call `part` under ``lock`` in another thread, while the trainers compute."""
        threading.Thread(target=self._part_under, args=(lock,), daemon=True).start()

    def _part_under(self, lock: threading.Lock) -> None:
        with lock:
            self.part()
