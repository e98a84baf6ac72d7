"""Draws by seed and name leave others alone; tests/formulas has the numbers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from reference.training.rng import build_seeded, seeded


def fail(numbers: torch.Tensor) -> None:
    raise ValueError(f"{numbers.numel()} numbers")


def test_the_default_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    with seeded(0, "a"):
        torch.rand(3)
    with pytest.raises(ValueError, match=r"^5 numbers$"), seeded(0, "a"):
        fail(torch.rand(5))
    build_seeded(nn.Linear, 3, 4, seed=1, name="x", dtype="float32")
    assert torch.equal(torch.get_rng_state(), before)


def test_modules_built_at_once_do_not_mix_their_draws() -> None:
    def weight(name: str) -> torch.Tensor:
        return build_seeded(nn.Linear, 200, 200, seed=0, name=name, dtype="float32").weight.detach()

    names = [str(index) for index in range(16)]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(weight, names))
    assert all(torch.equal(got, weight(name)) for name, got in zip(names, together, strict=True))
