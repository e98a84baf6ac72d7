"""Run a program with sums in another order: sums are permuted and split, other roundings move by at most one place.

A program that runs under `Reordered`, a dispatch mode of torch, gets from each operator a result that another correct
implementation could have computed, in its backward passes, too. Two such runs differ only by rounding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from reference.rounding.reordered_sums import ROUNDED, SUMS
from reference.trace.case import Case
from reference.trace.trace import Trace
from reference.training.rng import generator

# The number of reordered twins for a bound.
REORDERED = 16

_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
# The most pieces of a sum. A sum is added one term after the other only if its terms have at most `_IN_TURN` elements;
# in bfloat16, where each addition is a call, only if there are at most `_CALLS`.
_PIECES, _IN_TURN, _CALLS = 8, 2**24, 2**12
# The second half of a mantissa, as bits.
_SECOND_HALF = {torch.float64: 2**29 - 1, torch.float32: 2**16 - 1, torch.float16: 2**5 - 1, torch.bfloat16: 2**4 - 1}


def reordered(train_locally: Callable[..., Trace], case: Case, run: Trace | None, seed: int) -> Trace:
    """The twin of a run, computed in the ``seed``-th other order."""
    with Reordered(seed):
        return train_locally(case, run)


def twins_for(
    twin: Trace, run: Trace, train_locally: Callable[..., Trace], orders: int = REORDERED
) -> tuple[Iterator[Trace], Trace]:
    """The twins for `twin_errors`, each computed only when it is asked for, and the float64 twin.

    A float64 run's own twin is the float64 twin. Then the reordered twins alone tell how far apart correct runs are.
    All but a run's own twin are computed on the CPU, also for a run on a GPU: its rounding is that of another order.
    Where there is no GPU, its own one is, too (`proven`).
    """
    case: Any = twin.case.on_cpu()
    others = (reordered(train_locally, case, run, seed) for seed in range(orders))
    if case.dtype == "float64":
        return others, twin
    return chain([twin], others), train_locally(replace(case, dtype="float64"), run)


class Reordered(TorchDispatchMode):
    """In this block operators sum in orders, and round up or down, as drawn from ``seed``.

    Operators that it does not know compute as usual. Other threads are not affected.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False, because a twin is never compiled, and preparing for that takes torch a sixth of the time."""
        return False

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.draws = generator(seed, "reordered")

    def __enter__(self) -> Any:
        # With mkldnn an LSTM is one operator, and its backward pass needs data that its forward pass has kept.
        self.mkldnn = torch._C._get_mkldnn_enabled()
        torch._C._set_mkldnn_enabled(False)
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        torch._C._set_mkldnn_enabled(self.mkldnn)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        torch._C._set_mkldnn_enabled(self.mkldnn)
        try:
            return self._computed(_name(func), func, args, kwargs or {})
        finally:
            torch._C._set_mkldnn_enabled(False)

    def _computed(self, name: str, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        if name in SUMS:
            result = SUMS[name](self, func, *args, **kwargs)
            self.move(result)
            return result
        if name == "relu.default":
            args = (self.decided(args[0]),)
        elif name == "relu_.default":
            args[0].copy_(self.decided(args[0]))
        result = func(*args, **kwargs)
        if name.replace("_.", ".") in ROUNDED:
            self.move(
                [args[0], args[2]] if result is None else result
            )  # a fused optimizer: parameters and their momentum
        return result

    def order(self, count: int) -> torch.Tensor:
        """Draw a permutation of ``count`` numbers."""
        return torch.randperm(count, generator=self.draws)

    def coin(self) -> bool:
        return bool(torch.randint(2, (), generator=self.draws))

    def split(self, count: int) -> list[torch.Tensor]:
        """Draw a permutation of ``count`` numbers in up to eight pieces. Each is summed by itself, then their sums."""
        pieces = int(torch.randint(max(1, min(count, _PIECES)), (), generator=self.draws)) + 1
        return [*self.order(count).tensor_split(pieces)]

    def in_turn(self, count: int, size: int, like: torch.Tensor) -> bool:
        """Draw whether to add the ``count`` terms of a sum one after the other: true for half of all long sums.

        All terms together have ``size`` elements, with the dtype and on the device of ``like``. A sum is long if it has
        more terms than `split` makes pieces. torch adds blocks of terms, so no permutation rounds as much as a loop
        over thousands of terms does. Sums that would take more than a tenth of a second are excluded.
        """
        most = _CALLS if like.dtype == torch.bfloat16 else _IN_TURN
        known = like.device.type == "cpu" and like.dtype in _SECOND_HALF
        return known and _PIECES < count <= most and size <= _IN_TURN and self.coin()

    def move(self, result: Any) -> None:
        """Move results in place, by -1, 0 or 1 ULP. An element whose mantissa ends in zeros (0, 1, 2) stays."""
        if isinstance(result, list | tuple):
            for each in result:
                self.move(each)
        elif isinstance(result, torch.Tensor) and result.is_floating_point():
            steps = torch.randint(-1, 2, result.shape, generator=self.draws, dtype=torch.int8)
            bits = result.view(_INTEGERS[result.element_size()])
            bits.add_(steps * (bits & _SECOND_HALF[result.dtype] != 0))

    def decided(self, tensor: torch.Tensor) -> torch.Tensor:
        """Prepare a ReLU's input: draw the sign of elements that one rounding of the largest element could move across
        0.

        Rounding decides whether such a unit passes its gradient on. If the signs were not drawn, the run could be the
        only one of 18 in which the unit does, and that is a large error.
        """
        size = tensor.abs()
        near = (size <= torch.finfo(tensor.dtype).eps * (size.amax() if size.numel() else 0)) & (size > 0)
        if not near.any():
            return tensor
        signs = torch.randint(2, tensor.shape, generator=self.draws) * 2 - 1
        return torch.where(near, size * signs, tensor)


@functools.cache
def _name(func: Any) -> str:
    return str(func).removeprefix("aten.")
