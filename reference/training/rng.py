"""Random numbers that depend on a seed and a name, never on which process draws them or when."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)

# Several RPC threads may draw at once, and they share the process's generator.
_drawing = threading.Lock()


def seed_for(seed: int, name: str) -> int:
    """Make a 63-bit seed for ``name``. Without it the children of a forkserver would share one random state (S1.14)."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator(seed: int, name: str) -> torch.Generator:
    """Make a new CPU generator for ``name``."""
    return torch.Generator().manual_seed(seed_for(seed, name))


@contextmanager
def seeded(seed: int, name: str) -> Iterator[None]:
    """Seed torch's default generator for this block, because parameters and dropout can draw from no other.

    Draws in the block depend only on ``seed`` and ``name``, in every process and each time the block is entered.
    """
    with _drawing, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed_for(seed, name))
        yield


def build_seeded(
    kind: Callable[..., M], *args: object, seed: int, name: str, dtype: str, integers: int = 0, **numbers: object
) -> M:
    """Build the module ``kind(*args, **numbers)`` with parameters that depend only on ``seed`` and ``name``.

    They are drawn in float32 and then converted to ``dtype``. With ``integers`` n they are replaced, in their order, by
    whole numbers from -n to n. The state of the default generator does not change.
    """
    with seeded(seed, name):
        module = kind(*args, **numbers)
        if integers:
            for parameter in module.parameters():
                parameter.data.copy_(torch.randint(-integers, integers + 1, parameter.shape))
        return module.to(getattr(torch, dtype))
