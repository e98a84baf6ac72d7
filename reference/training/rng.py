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

# Several RPC threads may draw at once, and the generator is the process's.
_drawing = threading.Lock()


def seed_for(seed: int, name: str) -> int:
    """A 63-bit seed for ``name``. Children of one forkserver inherit one random state (S1.14)."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator(seed: int, name: str) -> torch.Generator:
    """A CPU generator of its own for ``name``."""
    return torch.Generator().manual_seed(seed_for(seed, name))


@contextmanager
def seeded(seed: int, name: str) -> Iterator[None]:
    """Seed torch's default generator for this block: parameters and dropout can draw from no other.

    Draws in the block depend on ``seed`` and ``name`` only, in any process and however often the block is entered.
    """
    with _drawing, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed_for(seed, name))
        yield


def build_seeded(
    kind: Callable[..., M], *args: object, seed: int, name: str, dtype: str, integers: int = 0, **numbers: object
) -> M:
    """``kind(*args, **numbers)``, a module whose parameters depend on ``seed`` and ``name`` only.

    They are drawn in float32 and then converted to ``dtype``. With ``integers`` n they are replaced, in their order, by
    whole numbers from -n to n. The default generator stays as it was.
    """
    with seeded(seed, name):
        module = kind(*args, **numbers)
        if integers:
            for parameter in module.parameters():
                parameter.data.copy_(torch.randint(-integers, integers + 1, parameter.shape))
        return module.to(getattr(torch, dtype))
