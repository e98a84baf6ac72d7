"""Check one entry of a trace: which names and tensors every reader of traces accepts."""

from __future__ import annotations

import math
import re

import torch

from reference.system.printable import shown

# The dtypes that `ulp` compares and that every computation of a bound supports.
REAL = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8),
    *(torch.uint64, torch.uint32, torch.uint16, torch.uint8, torch.bool),
)
# The longest name in characters, and the most dimensions and elements that every version of numpy and torch supports.
LONGEST, DIMENSIONS, ELEMENTS = 1000, 32, 2**59
_STEP = re.compile(r"[0-9]{4,18}")


def misnamed(name: str) -> str | None:
    """Say why this is no tensor's name; None if it is one.

    A name is printable parts separated by slashes, none of which means a folder.
    """
    if len(name) > LONGEST or not name.isprintable():
        return f"a tensor's name is printable and has at most {LONGEST} characters, got {shown(name)}"
    parts = name.split("/")
    if not {"", ".", ".."}.isdisjoint(parts):
        return f"a tensor's name has no empty part, '.' or '..', got {shown(name)}"
    if parts[1:2] == ["loss"] and not _STEP.fullmatch(parts[0]):
        return f"a loss has a name like '0003/loss/trainer1', got {shown(name)}"
    return None


def unreadable(tensor: torch.Tensor) -> str | None:
    """Say why this is no tensor of a trace; None if it is one."""
    if tensor.dtype not in REAL or tensor.layout != torch.strided:
        return f"not a plain tensor of real numbers ({shown(tensor.dtype)}, {shown(tensor.layout)})"
    if tensor.dim() > DIMENSIONS:
        return f"{tensor.dim()} dimensions, wanted at most {DIMENSIONS}"
    if math.prod(max(1, size) for size in tensor.shape) > ELEMENTS:  # an empty tensor's shape counts, too
        return f"too large a shape, {shown(tuple(tensor.shape))}"
    return None


def step_of(name: str) -> int | None:
    """The step whose loss has this name; None if the name is no loss's."""
    parts = name.split("/", 2)
    return int(parts[0]) if len(parts) == 3 and parts[1] == "loss" and _STEP.fullmatch(parts[0]) else None
