"""Seeds by name, torch's default generator under such a seed, and what a trace keeps."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch

Named = dict[str, torch.Tensor]


def seed_of(seed: int, name: str) -> int:
    """The upper 63 of the first 64 bits of SHA-256 of ``seed/name``."""
    return int(hashlib.sha256(f"{seed}/{name}".encode()).hexdigest()[:16], 16) // 2


def generator(seed: int, name: str) -> torch.Generator:
    """A generator whose first draw is the first under that name."""
    return torch.Generator().manual_seed(seed_of(seed, name))


@contextmanager
def default_generator(seed: int, name: str) -> Iterator[None]:
    """Constructors of layers draw from torch's default generator, which this seeds and later gives back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(seed, name))
        yield


def copies(named: Named, prefix: str) -> Named:
    """The tensors as they are now, under the names that a trace gives them."""
    return {f"{prefix}/{name}": tensor.detach().clone() for name, tensor in named.items()}


def kept(trace: Named, steps: int, record: str, always: tuple[str, ...] = ("loss",)) -> Named:
    """What ``record`` leaves of a trace: with "ends" initial and last parameters, and ``always`` of every step."""
    last = f"{steps - 1:04d}"
    ends = {f"{last}/parameter", f"{last}/buffer", *(f"{step:04d}/{kind}" for step in range(steps) for kind in always)}
    return {
        name: tensor
        for name, tensor in trace.items()
        if record == "every" or name.startswith("initial/") or "/".join(name.split("/")[:2]) in ends
    }
