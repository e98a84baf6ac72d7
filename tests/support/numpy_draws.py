"""Shared parts of tutorials' NumPy forms: a case's random numbers, drawn from a seed and a name, and their trace."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from reference.trace import Case, Trace

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, npt.ArrayLike]


class Draws:
    """Draws the numbers of ``name``, seeded with the first 8 bytes of a SHA-256 of seed and name, less one bit."""

    def __init__(self, seed: int, name: str) -> None:
        digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
        self.generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)

    def normal(self, *shape: int) -> Array:
        return torch.randn(shape, generator=self.generator).numpy()

    def integers(self, below: int, *shape: int) -> Array:
        return torch.randint(below, shape, generator=self.generator).numpy()


class Notes:
    """A trace in the making: arrays by name, copied."""

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}

    def put(self, prefix: str, arrays: Arrays) -> None:
        for name, array in arrays.items():
            self.tensors[f"{prefix}/{name}"] = torch.from_numpy(np.array(array))

    def trace(self, case: Case) -> Trace:
        return Trace(case, self.tensors)


def initial(trace: Trace) -> dict[str, Array]:
    """The parameters that a trace starts from."""
    return {n.removeprefix("initial/"): t.numpy() for n, t in trace.tensors.items() if n.startswith("initial/")}
