"""Seed torch's default generator for a block: parameters and dropout can draw from no other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import nn

from reference.training.seeding import seed_for

M = TypeVar("M", bound=nn.Module)

# Several RPC threads may draw at once, and the generator is the process's.
_drawing = threading.Lock()


@contextmanager
def drawn(seed: int, name: str) -> Iterator[None]:
    """Draws in this block are those of ``seed`` and ``name``, in any process and however often it is entered."""
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
    with drawn(seed, name):
        module = kind(*args, **numbers)
        if integers:
            for parameter in module.parameters():
                parameter.data.copy_(torch.randint(-integers, integers + 1, parameter.shape))
        return module.to(getattr(torch, dtype))
