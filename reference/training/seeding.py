"""Random numbers that depend on a seed and a name, never on which process draws them or when."""

from __future__ import annotations

import hashlib

import torch


def seed_for(seed: int, name: str) -> int:
    """A 63-bit seed for ``name``. Children of one forkserver inherit one random state (S1.14)."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator(seed: int, name: str) -> torch.Generator:
    """A CPU generator of its own for ``name``."""
    return torch.Generator().manual_seed(seed_for(seed, name))
