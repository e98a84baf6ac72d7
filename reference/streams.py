"""torch's default generator as a stream of each role: dropout can draw from no other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import nn

from reference.seeding import seed_for

M = TypeVar("M", bound=nn.Module)

# Several RPC threads may build modules at once, and the generator is the process's.
_building = threading.Lock()


def build(kind: Callable[..., M], *args: object, seed: int, name: str, dtype: str) -> M:
    """``kind(*args)`` with parameters drawn in float32 for ``name``; the default generator stays as it was."""
    with _building, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed_for(seed, name))
        return kind(*args).to(getattr(torch, dtype))


def start_stream(seed: int, role: str) -> None:
    """Runs on ``role``, before its first draw: start this process's stream."""
    torch.default_generator.manual_seed(seed_for(seed, f"{role}/stream"))


class Streams:
    """The streams of several roles in one process, for a twin."""

    def __init__(self, seed: int, *roles: str) -> None:
        self.states = {
            role: torch.Generator().manual_seed(seed_for(seed, f"{role}/stream")).get_state() for role in roles
        }

    @contextmanager
    def of(self, role: str) -> Iterator[None]:
        """Inside the block, draws come from this role's stream; afterwards from what it was before."""
        before = torch.get_rng_state()
        torch.set_rng_state(self.states[role])
        try:
            yield
            self.states[role] = torch.get_rng_state()
        finally:
            torch.set_rng_state(before)
