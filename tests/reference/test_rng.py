"""Draws by seed and name."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from reference.training.rng import build_seeded, generator, seed_for, seeded


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


@pytest.mark.parametrize(
    ("seed", "name", "wanted"),
    [
        # The first 16 digits of `printf '0/model' | sha256sum`, halved.
        (0, "model", 0x9A442434DB582459 // 2),
        (7, "worker1", 0xC85A9E0AA47D4A0B // 2),
        (2**63 - 1, "trainer255", 0x05F4026FAAE25C92 // 2),
        (0, "", 0x1FF70EC879ACB377 // 2),
    ],
)
def test_seeds_are_those_computed_by_hand(seed: int, name: str, wanted: int) -> None:
    """A change of these numbers changes every trace that was ever saved."""
    assert seed_for(seed, name) == wanted
    assert generator(seed, name).initial_seed() == wanted


def test_generators_are_apart_from_the_global_state() -> None:
    """They neither read nor advance it; and each is on the CPU, whatever the default device."""
    before = torch.get_rng_state()
    drawn = generator(3, "worker1")
    numbers = torch.rand(4, generator=drawn)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(100)
    assert torch.equal(torch.rand(4, generator=generator(3, "worker1")), numbers)
    assert drawn.device == torch.device("cpu")
