"""torch's default generator, borrowed: parameters and dropout can draw from no other."""

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


def build(kind: Callable[..., M], *args: object, seed: int, name: str, dtype: str) -> M:
    """``kind(*args)`` with parameters drawn in float32 for ``name``; the default generator stays as it was."""
    with drawn(seed, name):
        return kind(*args).to(getattr(torch, dtype))
