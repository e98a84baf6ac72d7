"""Traces: what a run did, step by step, as named tensors; and the comparison of two traces.

`names` says what the tensors are called.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from reference import TUTORIALS, load
from reference.system.files import whole
from reference.system.text import OneLine, is_file_name, one_line, shown
from reference.trace.case import Case
from reference.trace.names import DIMENSIONS, ELEMENTS, misnamed, step_of

# The dtypes that `ulps` compares and that every computation of a bound supports.
REAL = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8),
    *(torch.uint64, torch.uint32, torch.uint16, torch.uint8, torch.bool),
)


def unreadable(tensor: torch.Tensor) -> str | None:
    """Say why this is no tensor of a trace; None if it is one."""
    if tensor.dtype not in REAL or tensor.layout != torch.strided:
        return f"not a plain tensor of real numbers ({shown(tensor.dtype)}, {shown(tensor.layout)})"
    if tensor.dim() > DIMENSIONS:
        return f"{tensor.dim()} dimensions, wanted at most {DIMENSIONS}"
    if math.prod(max(1, size) for size in tensor.shape) > ELEMENTS:  # an empty tensor's shape counts, too
        return f"too large a shape, {shown(tuple(tensor.shape))}"
    return None


_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _bits(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """View the elements' bits as unsigned integers."""
    width = tensor.element_size()
    signed = tensor.detach().cpu().contiguous().view(_INTEGERS[width])
    return signed.flatten().numpy().view(f"u{width}")  # flat, because numpy 1 has at most 32 dimensions


def _ordered(tensor: torch.Tensor, signed_zero: bool) -> np.ndarray[Any, Any]:
    """Map elements to unsigned integers in the same order as the numbers; -0.0 comes just below 0.0."""
    width, bits = tensor.element_size(), _bits(tensor)
    top = bits.dtype.type(1 << (8 * width - 1))
    if not tensor.dtype.is_floating_point:
        return bits ^ top if tensor.dtype.is_signed else bits
    below = ~bits if signed_zero else -bits  # `-bits` is `~bits` + 1, so -0.0 meets 0.0
    return np.where(bits & top, below, bits | top)


def ulps(a: torch.Tensor, b: torch.Tensor, signed_zero: bool = True) -> int:
    """The largest distance between two corresponding elements; 0 exactly if all bits are equal.

    Both tensors have one shape and one real dtype, and hold no NaN. The distance of integers is their difference.
    Without ``signed_zero``, -0.0 and 0.0 are one number; with it they are neighbours.
    """
    if np.array_equal(_bits(a), _bits(b)):  # the usual case, and much faster than measuring distances
        return 0
    left, right = _ordered(a, signed_zero), _ordered(b, signed_zero)
    return int((np.maximum(left, right) - np.minimum(left, right)).max())


Named = Mapping[str, torch.Tensor]


class TraceError(OneLine, ValueError):
    """Two traces cannot be compared, or a file holds no trace."""


class NoCase(TraceError):
    """A file does not say of which case its ``tensors`` are: it may be an answer of the conformance kit."""

    def __init__(self, path: str | os.PathLike[str], tensors: dict[str, torch.Tensor]) -> None:
        super().__init__(f"{path}: its header has no case, wanted a trace file")
        self.tensors = tensors


@dataclass(frozen=True, eq=False)
class Trace:
    """What one run of ``case`` did. Every tensor lies on the CPU and shares no memory with the run."""

    case: Case
    tensors: dict[str, torch.Tensor]

    def losses(self) -> list[float]:
        """The mean loss of each step; empty if nothing is trained.

        Raises:
            TraceError: a loss is not one number.
        """
        steps: dict[int, list[float]] = {}
        for name, tensor in self.tensors.items():
            step = step_of(name)
            if step is not None:
                steps.setdefault(step, []).append(_loss(name, tensor))
        return [sum(each) / len(each) for _, each in sorted(steps.items())]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file with the case in its header. It is written whole or not at all.

        Raises:
            TraceError: ``path`` is something else than a plain file, or `load` would refuse a tensor or a name.
            OSError: the folder or the file cannot be written, or the disk is full.
        """
        _check(self.tensors)
        header = {"tutorial": self.case.tutorial(), "case": self.case.to_json()}
        target = Path(_named(Path(_named(path)).resolve()))
        if target.exists() and not target.is_file():
            raise TraceError(f"{path}: not a plain file, so it is not replaced")
        with whole(path) as scratch:
            try:
                save_file(self.tensors, scratch, metadata=header)
            except SafetensorError as error:  # safetensors raises it for an error of the system
                raise OSError(str(error)) from error

    @classmethod
    def load(cls, path: str | os.PathLike[str], case_type: type[Case] | None = None) -> Trace:
        """Read the trace that `save` wrote; ``case_type``: its case's class if that is no tutorial of this package.

        Raises:
            NoCase: the file has tensors and no case.
            TraceError: the file is no trace, its tutorial is unknown, or it holds what no trace may hold.
            CaseError: the case in the header is not valid.
            OSError: the file cannot be opened.
        """
        if Path(_named(path)).exists() and not Path(path).is_file():
            what = "a folder" if Path(path).is_dir() else "not a plain file"
            raise TraceError(f"{path}: {what}, wanted a trace file")
        os.close(os.open(path, os.O_RDONLY))  # safetensors says of each error that there is no such file
        try:
            with safe_open(path, framework="pt") as file:
                header = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise TraceError(f"{path}: not a safetensors file ({one_line(str(error), 400)})") from error
        except (TypeError, ValueError, RuntimeError) as error:  # the tensor's size is more than torch can count
            raise TraceError(f"{path}: holds a tensor that cannot be read ({type(error).__name__})") from error
        _check(tensors)
        if "tutorial" not in header or "case" not in header:
            raise NoCase(path, tensors)
        return cls((case_type or _case_type(header["tutorial"])).from_json(header["case"]), tensors)


def _named(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Return ``path``, whose name safetensors needs in UTF-8. Raises TraceError: it has no such name."""
    if not is_file_name(os.fspath(path)):
        raise TraceError(f"{shown(os.fspath(path))}: wanted a file's name in UTF-8")
    return path


def _check(tensors: Named) -> None:
    """Raises TraceError if a name or a tensor is none that a trace may have."""
    for name, tensor in tensors.items():
        if why := misnamed(name):
            raise TraceError(f"{why}, got {shown(name)}")
        if why := unreadable(tensor):
            raise TraceError(f"{name}: {why}")
        if step_of(name) is not None:
            _loss(name, tensor)


def _loss(name: str, tensor: torch.Tensor) -> float:
    if tensor.numel() != 1:
        raise TraceError(f"{name}: a loss is one number, got {tensor.numel()}")
    return float(tensor.item())


def _case_type(tutorial: str) -> type[Case]:
    if tutorial not in TUTORIALS:
        raise TraceError(f"unknown tutorial {shown(tutorial)}, wanted one of {', '.join(TUTORIALS)}")
    case_type: type[Case] = load(tutorial).Case
    return case_type


@dataclass(frozen=True)
class Comparison:
    """Distances in ULPs by tensor name, 0 for equal bits, in the order of the names."""

    distances: dict[str, int]

    @property
    def equal(self) -> bool:
        return not any(self.distances.values())

    @property
    def worst(self) -> tuple[str, int]:
        """The tensor with the largest distance (the first one if several have it), and that distance."""
        return max(self.distances.items(), key=lambda item: item[1])

    def __str__(self) -> str:
        if self.equal:
            return f"bits equal in {len(self.distances)} tensors"
        differing = sum(distance > 0 for distance in self.distances.values())
        return f"{self.worst[1]} ULPs in {self.worst[0]}, {differing} of {len(self.distances)} tensors differ"


def compare(a: Trace, b: Trace) -> Comparison:
    """Compare every tensor of two traces of one case.

    The cases may differ in fields that do not decide the result. In an exact case -0.0 and 0.0 count as equal, because
    the sign of a zero sum depends on the value that the sum begins with, not on rounding. In a natural case bits count.

    Raises:
        TraceError: the cases differ, a tensor is missing on one side or has another shape or dtype or NaN, or there is
            no tensor.
    """
    if not a.case.same_result_as(b.case):
        raise TraceError(f"traces of different cases: {a.case} and {b.case}")
    check_comparable(a.tensors, b.tensors)
    signed_zero = not a.case.is_exact
    return Comparison({name: ulps(a.tensors[name], b.tensors[name], signed_zero) for name in sorted(a.tensors)})


def check_comparable(a: Named, b: Named, *, same_dtype: bool = True) -> None:
    """Raises TraceError unless every tensor has a counterpart of its shape on the other side, without NaN."""
    if not a and not b:
        raise TraceError("neither trace has a tensor, wanted at least one")
    for missing, side in ((set(b) - set(a), "first"), (set(a) - set(b), "second")):
        if missing:
            raise TraceError(f"the {side} trace lacks {len(missing)} tensors, among them {shown(min(missing))}")
    for name, left in a.items():
        right = b[name]
        if left.shape != right.shape:
            raise TraceError(f"{name}: shapes differ, {tuple(left.shape)} and {tuple(right.shape)}")
        if same_dtype and left.dtype != right.dtype:
            raise TraceError(f"{name}: dtypes differ, {left.dtype} and {right.dtype}")
        if why := unreadable(left) or unreadable(right):
            raise TraceError(f"{name}: {why}")
        if _holds_nan(left) or _holds_nan(right):
            raise TraceError(f"{name}: holds NaN")


def _holds_nan(tensor: torch.Tensor) -> bool:
    """Look at the minimum, which is NaN if any element is. Unlike ``isnan()`` of all elements, it needs no memory."""
    return tensor.is_floating_point() and tensor.numel() > 0 and bool(tensor.amin().isnan())
