"""Encode values that a role and its launcher exchange: pickles with tensors as plain arrays.

multiprocessing would send a tensor as shared memory, and its sender would have to live until it is read. A role need
not live that long.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

# An array of at least as many bytes is a part of its own.
LARGE = 1 << 16

_INTEGERS = {1: torch.int8, 2: torch.int16}


def _rebuild(array: np.ndarray[Any, Any], dtype: torch.dtype, requires_grad: bool) -> torch.Tensor:
    return torch.from_numpy(array).view(dtype).requires_grad_(requires_grad)


def _reduce(tensor: torch.Tensor) -> tuple[Callable[..., object], tuple[Any, ...]] | str:
    plain = type(tensor) is torch.Tensor and tensor.device.type == "cpu" and tensor.layout == torch.strided
    if not plain or tensor.is_quantized or tensor.is_complex():
        return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)  # type: ignore[no-any-return]
    bits = tensor.detach().resolve_neg().contiguous()
    if bits.is_floating_point() and bits.dtype not in (torch.float16, torch.float32, torch.float64):
        bits = bits.view(_INTEGERS[bits.element_size()])  # numpy lacks this dtype, so the bits are sent as integers
    return _rebuild, (bits.numpy(), tensor.dtype, tensor.requires_grad)


class Pickler(pickle.Pickler):
    dispatch_table = copyreg.dispatch_table.copy()
    dispatch_table[torch.Tensor] = _reduce


def dumps(value: object, pickler: type[Pickler] = Pickler) -> bytes:
    """Pickle ``value``. Raises pickle's own error for a value that cannot be sent."""
    buffer = io.BytesIO()
    pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


loads = pickle.loads


def parts(value: object) -> list[bytes | memoryview]:
    """Pickle ``value`` without its large arrays, which follow, each the sender's own memory instead of a copy."""
    buffer, large = io.BytesIO(), list[memoryview]()

    def stays(array: pickle.PickleBuffer) -> bool:
        raw = array.raw()
        if raw.nbytes >= LARGE:
            large.append(raw)
        return raw.nbytes < LARGE

    Pickler(buffer, pickle.HIGHEST_PROTOCOL, buffer_callback=stays).dump(value)
    return [buffer.getvalue(), *large]


def joined(received: Sequence[bytearray]) -> Any:
    """Make the value from its parts. Its large arrays are these parts' memory."""
    return pickle.loads(received[0], buffers=received[1:])
