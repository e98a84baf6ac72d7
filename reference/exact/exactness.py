"""Prove every operation of a twin exact, so that any order of its sums, with FMA or without, gives the same bits.

Every number is a whole multiple of its tensor's unit, a power of two. A sum of terms is exact in every order if the sum
of their sizes is below 2**53 units: every partial sum is then a whole number of units that float64 holds. `Exactly`
asks that of each operation of the twin as it happens: forward pass, loss, backward pass, optimizer.

A sum that goes on from operation to operation (a batch in parts, trainers one after the other, a loss of the sums that
outputs are) is one sum: the sizes of its terms go along with the storage of the result, because a partial result may be
small by cancellation alone. So a loss and a gradient are proved as one sum over the products of all their factors, down
to data, parameters and the 0 or 1 of a ReLU, which contains every other way to group them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from reference.exact.grid import ZERO, Grid, either, grid_of_values, sizes
from reference.exact.operator_rules import RULES, Rule, tensors_of
from reference.trace.case import Case, CaseError
from reference.trace.progress import STEP
from reference.trace.trace import Trace, TraceError

Twin = Callable[..., Trace]

BITS = {torch.float64: 53, torch.float32: 24}  # of a significand
WANTED = "wanted smaller sizes, lr or fewer steps"


class NotExact(TraceError, CaseError):
    """An operation of an exact case that rounds, or of which nobody has proved that it does not."""


@dataclass(frozen=True)
class _Form:
    """What is to be known of an operation: how it is proved, whether it gives a view, which arguments it writes."""

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


class Exactly(TorchDispatchMode):
    """Within it every operation of this thread is proved exact, or refused with `NotExact`."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: nobody compiles a twin, and to arrange for it takes torch a second."""
        return False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sums: dict[StorageWeakRef, Grid] = {}
        self.parameters: set[StorageWeakRef] = set()  # that have been updated
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
        if not operands or (form.rule is None and not any(tensor.is_floating_point() for tensor in operands)):
            result = self._kept(form, args, given, None)  # draws and constants; integers never round
            if operands and any(tensor.is_floating_point() for tensor in tensors_of(result)):
                raise self.refusal(f"no proof for {form.name}")
            return result
        if form.rule is None:
            raise self.refusal(f"no proof for {form.name}")
        return self._kept(form, args, given, form.rule(self, args, given))

    def grid(self, number: Any) -> Grid:
        """Of a tensor or a number: the terms of the sum that it is, otherwise its values."""
        if not isinstance(number, torch.Tensor):
            return grid_of_values(np.array([abs(float(number))]))
        return self.sum_of(number) or grid_of_values(sizes(number))

    def sum_of(self, number: Any) -> Grid | None:
        """The terms of the sum that a tensor is; None where it is no sum that goes on.

        A parameter is the sum of its updates for who updates it, and a number for who reads it.
        """
        if not isinstance(number, torch.Tensor):
            return None
        key = _storage(number)
        return None if key in self.parameters and not self.writes else self.sums.get(key)

    def sizes(self, tensor: torch.Tensor) -> np.ndarray[Any, Any]:
        """Of each element: that of its terms where it is a sum that goes on."""
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
        """The result; where it is a sum that may go on, its terms with it."""
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
            whole = tensor.new_empty(0).set_(tensor.untyped_storage())  # of which it is a part
            grid = either(either(grid or ZERO, old or ZERO), grid_of_values(sizes(whole)))
        if grid is not None:
            self.sums[key] = grid


def _storage(tensor: torch.Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())


def proven(twin: Twin) -> Twin:
    """A twin that proves each operation of an exact case.

    Raises:
        NotExact: by the twin, in an exact case that is none.
    """

    @functools.wraps(twin)
    def proving(case: Case, replay: Trace | None = None) -> Trace:
        if not case.is_exact:
            return twin(case, replay)
        with Exactly():
            return twin(case, replay)

    return proving
