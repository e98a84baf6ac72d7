"""Check one tensor of a trace: which ones every reader of traces accepts."""

from __future__ import annotations

import math

import torch

from reference.system.printable import shown

# The dtypes that `ulp` compares and that every computation of a bound supports.
REAL = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8),
    *(torch.uint64, torch.uint32, torch.uint16, torch.uint8, torch.bool),
)
# The most dimensions and elements that every version of numpy and torch supports.
DIMENSIONS, ELEMENTS = 32, 2**59


def unreadable(tensor: torch.Tensor) -> str | None:
    """Say why this is no tensor of a trace; None if it is one."""
    if tensor.dtype not in REAL or tensor.layout != torch.strided:
        return f"not a plain tensor of real numbers ({shown(tensor.dtype)}, {shown(tensor.layout)})"
    if tensor.dim() > DIMENSIONS:
        return f"{tensor.dim()} dimensions, wanted at most {DIMENSIONS}"
    if math.prod(max(1, size) for size in tensor.shape) > ELEMENTS:  # an empty tensor's shape counts, too
        return f"too large a shape, {shown(tuple(tensor.shape))}"
    return None
