"""Modes of torch for tests of other orders: one only orders sums, one names the operators that it does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from reference.rounding.reordered_sums import ROUNDED, SUMS
from reference.rounding.reordering import Reordered


class Unrounded(Reordered):
    """Leaves the roundings of single elements as they are."""

    def move(self, result: Any) -> None:
        pass

    def decided(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor


class Watching(Reordered):
    """Collects the operators that are in no table, and computed as usual."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.unknown: set[str] = set()

    def _computed(self, name: str, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        if name not in SUMS.keys() | EXACT and name.replace("_.", ".") not in ROUNDED:
            self.unknown.add(name)
        return super()._computed(name, func, args, kwargs)


_EXACT = """
arange.default arange.start arange.start_step argmax.default bernoulli_.float cat.default clone.default copy_.default
_to_copy.default detach.default embedding.default empty.memory_format empty_like.default expand.default fill_.Scalar
floor_divide.default gather.default ge.Scalar index.Tensor lift_fresh.default _local_scalar_dense.default
max_pool2d_with_indices.default neg.default new_empty.default new_zeros.default normal_.default ones.default
ones_like.default rand.generator randint.generator randn.generator relu.default relu_.default remainder.Scalar
scatter_.value select.int select_backward.default set_.source_Storage set_.source_Storage_storage_offset slice.Tensor
slice_backward.default split.Tensor split_with_sizes.default squeeze.dim stack.default t.default
threshold_backward.default transpose.int unbind.int uniform_.default unsafe_chunk.default unsafe_split.Tensor
_unsafe_view.default unsqueeze.default view.default zero_.default zeros.default zeros_like.default
"""
# Operators that do not round: views, copies, draws, comparisons, and those that only overwrite numbers.
EXACT = frozenset(_EXACT.split())
