"""Prove every operation of a twin exact, so that any order of its sums, with FMA or without, gives the same bits.

Every number is a whole multiple of its tensor's unit, a power of two. A sum of terms is exact in every order if the sum
of their sizes is below 2**53 units: then every partial sum is a whole number of units that float64 holds.
`ExactnessProof` checks this for each operation of the twin when it runs: forward pass, loss, backward pass, optimizer.

A sum can go on from operation to operation: over the parts of a batch, over trainers, from outputs to a loss. It counts
as one sum. The sizes of its terms are kept with the storage of the result, because a partial result may be small only
by cancellation. So a loss and a gradient are each proved as one sum over the products of all their factors, down to
data, parameters and the 0 or 1 of a ReLU. That sum contains every other way to group the terms.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from reference.exact.operator_rules import RULES, ZERO, Grid, Rule, either, grid_of_values, sizes, tensors_of
from reference.trace.case import Case, CaseError
from reference.trace.progress import STEP
from reference.trace.recorder import is_following
from reference.trace.trace import Trace, TraceError

Twin = Callable[..., Trace]

BITS = {torch.float64: 53, torch.float32: 24}  # in a significand
WANTED = "wanted smaller sizes, lr or fewer steps"


class NotExact(TraceError, CaseError):
    """An operation of an exact case rounds, or has no proof that it does not."""


@dataclass(frozen=True)
class _Form:
    """The properties of an operation: its rule, whether it returns a view, and the arguments that it writes."""

    func: Any
    name: str
    rule: Rule | None
    view: bool
    writes: tuple[int, ...]


@functools.cache
def _form(func: Any) -> _Form:
    namespace, _, name = func._schema.name.partition("::")
    writes = tuple(place for place, argument in enumerate(func._schema.arguments) if argument.is_write)
    view = namespace == "profiler" or (not writes and any(value.alias_info for value in func._schema.returns))
    return _Form(func, name, RULES.get(name) or RULES.get(name.removesuffix("_")), view, writes)


class ExactnessProof(TorchDispatchMode):
    """In this block every operation of this thread is proved exact, or refused with `NotExact`."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False, because a twin is never compiled, and preparing for that takes torch a second."""
        return False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sums: dict[StorageWeakRef, Grid] = {}
        self.parameters: set[StorageWeakRef] = set()  # the parameters that have been updated
        self.name, self.writes = "", False
        STEP.set(0)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        form, given = _form(func), kwargs or {}
        if form.view:
            return func(*args, **given)  # the storage, and so the terms, stay the same
        self.name, self.writes = form.name, bool(form.writes)
        operands = tensors_of(args)
        if form.rule is None and not any(tensor.is_floating_point() for tensor in operands):
            result = self._kept(form, args, given, None)  # draws and constants; integers never round
            if operands and any(tensor.is_floating_point() for tensor in tensors_of(result)):
                raise self.refusal(f"no proof for {form.name}")
            return result
        if form.rule is None:
            raise self.refusal(f"no proof for {form.name}")
        return self._kept(form, args, given, form.rule(self, args, given))

    def grid(self, number: Any) -> Grid:
        """The grid of a tensor or a number: of the terms of its sum if it is one, otherwise of its values."""
        if not isinstance(number, torch.Tensor):
            return grid_of_values(np.array([abs(float(number))]))
        return self.sum_of(number) or grid_of_values(sizes(number))

    def sum_of(self, number: Any) -> Grid | None:
        """The grid of the terms if a tensor is a sum that goes on; otherwise None.

        A parameter is the sum of its updates for an operation that updates it, and a number for one that reads it.
        """
        if not isinstance(number, torch.Tensor):
            return None
        key = _storage(number)
        return None if key in self.parameters and not self.writes else self.sums.get(key)

    def sizes(self, tensor: torch.Tensor) -> np.ndarray[Any, Any]:
        """The size of each element, or of its terms if the tensor is a sum that goes on."""
        known = self.sum_of(tensor)
        return sizes(tensor) if known is None else np.full(tuple(tensor.shape), known.most)

    def require(self, grid: Grid, operands: Sequence[Any]) -> Grid:
        """Refuse an operation on these operands unless all its partial sums fit."""
        floats = [tensor.dtype for tensor in tensors_of(operands) if tensor.is_floating_point()]
        allowed = min((BITS.get(dtype, 0) for dtype in floats), default=63)
        misfit = grid.misfit(allowed)
        if misfit:
            raise self.refusal(f"{self._what(operands)} {misfit}")
        return grid

    def refusal(self, text: str) -> NotExact:
        return NotExact(f"step {STEP.get()}: {text}; {WANTED}")

    def _what(self, operands: Sequence[Any]) -> str:
        shapes = [str(tuple(each.shape)) if isinstance(each, torch.Tensor) else str(each) for each in operands]
        return f"{self.name} of {' and '.join(shapes)}"

    def _kept(self, form: _Form, args: Any, kwargs: Any, grid: Grid | list[Grid | None] | None) -> Any:
        """Return the result, and keep its terms if it is a sum that may go on."""
        result = form.func(*args, **kwargs)
        tensors = tensors_of([args[place] for place in form.writes]) if form.writes else tensors_of(result)
        for tensor, each in zip(tensors, grid if isinstance(grid, list) else [grid] * len(tensors), strict=True):
            self._keep(tensor, each)
            if form.writes and tensor.requires_grad:
                self.parameters.add(_storage(tensor))
        return result

    def _keep(self, tensor: torch.Tensor, grid: Grid | None) -> None:
        key = _storage(tensor)
        old = self.sums.pop(key, None)
        if (grid or old) and tensor.untyped_storage().nbytes() != tensor.numel() * tensor.element_size():
            whole = tensor.new_empty(0).set_(tensor.untyped_storage())  # the tensor is a part of it
            grid = either(either(grid or ZERO, old or ZERO), grid_of_values(sizes(whole)))
        if grid is not None:
            self.sums[key] = grid


def _storage(tensor: torch.Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())


def proven(twin: Twin) -> Twin:
    """Decorate a twin so that it proves each operation of an exact case.

    Raises:
        NotExact: the twin raises it if an operation of the case rounds.
    """

    @functools.wraps(twin)
    def proving(case: Case, replay: Trace | None = None) -> Trace:
        if not case.is_exact or is_following():  # another run's numbers may round
            # A run on a GPU may be judged where there is none.
            return twin(case if torch.cuda.device_count() else case.on_cpu(), replay)
        with ExactnessProof():
            return twin(case.on_cpu(), replay)  # any device gives what is proved

    return proving


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

    All orders add the same updates, because no gradient of an exact case depends on the weights. A loss depends on the
    updates so far: it is largest if all updates of weight and bias have one sign. ``batches``: all workers' batches, of
    integers.
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
