"""Parts that the formulas share: seeds by name, and the tensors that ``record`` leaves out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

Tensors = dict[str, torch.Tensor]


def seed_of(seed: int, name: str) -> int:
    """Derive the seed of ``name``: the first 63 bits of SHA-256 of ``seed/name``."""
    return int(hashlib.sha256(f"{seed}/{name}".encode("ascii")).hexdigest()[:16], 16) // 2


def draws(seed: int, name: str) -> torch.Generator:
    """Make the generator that ``name`` draws from."""
    made = torch.Generator()
    made.manual_seed(seed_of(seed, name))
    return made


@contextmanager
def default_draws(seed: int, name: str) -> Iterator[None]:
    """Seed torch's default generator, from which layers draw their parameters, for ``name`` within this block."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed_of(seed, name))
        yield


def copies(named: Tensors, prefix: str) -> Tensors:
    """Copy the tensors as they are now, under the names that a trace gives them."""
    return {f"{prefix}/{name}": tensor.detach().clone() for name, tensor in named.items()}


def recorded(case: Any, tensors: Tensors, last: int, *more: str) -> Tensors:
    """Drop what ``record="ends"`` leaves out: ``more``, gradients, and between the ends parameters and buffers."""
    if case.record == "every":
        return tensors
    between = [f"{step:04d}/{kind}/" for step in range(last) for kind in ("parameter", "buffer")]
    between += [f"{step:04d}/{kind}/" for step in range(last + 1) for kind in ("gradient", *more)]
    return {name: tensor for name, tensor in tensors.items() if not f"{name}/".startswith(tuple(between))}
