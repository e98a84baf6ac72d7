"""Seeds by name: the same everywhere, and nobody else's draws disturb them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reference.training.seeding import generator, seed_for


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
def test_known_seeds(seed: int, name: str, wanted: int) -> None:
    """A change of these numbers changes every trace that was ever saved."""
    assert seed_for(seed, name) == wanted
    assert generator(seed, name).initial_seed() == wanted


@given(st.integers(0, 2**63 - 1), st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_seeds_have_63_bits_and_depend_on_both(seed: int, name: str) -> None:
    drawn = seed_for(seed, name)
    assert type(drawn) is int
    assert 0 <= drawn < 2**63
    assert drawn not in (seed_for(seed + 1, name), seed_for(seed, name + "1"))


def test_generators_draw_the_same_for_the_same_name_only() -> None:
    def draws(seed: int, name: str) -> list[float]:
        return torch.randn(8, generator=generator(seed, name)).tolist()

    assert draws(0, "trainer1") == draws(0, "trainer1")
    assert draws(0, "trainer1") != draws(0, "trainer2")
    assert draws(0, "trainer1") != draws(1, "trainer1")


def test_generators_are_apart_from_the_global_state() -> None:
    """They neither read nor advance it; and each is on the CPU, whatever the default device."""
    before = torch.get_rng_state()
    drawn = generator(3, "worker1")
    numbers = torch.rand(4, generator=drawn)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(100)
    assert torch.equal(torch.rand(4, generator=generator(3, "worker1")), numbers)
    assert drawn.device == torch.device("cpu")
