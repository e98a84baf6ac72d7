"""Draws by seed and name, in one process as in several."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from reference.training.rng import build_seeded, drawn
from reference.world import launch


def draws(seed: int, name: str) -> list[float]:
    """Runs on any role."""
    with drawn(seed, name):
        values: list[float] = torch.rand(3).tolist()
    return values


def test_draws_depend_on_seed_and_name_only() -> None:
    """Not on the process, nor on what it drew before, nor on how often it is asked."""
    with launch(["a", "b"]) as world:
        world.call("a", torch.rand, 7)
        got = [world.call(role, draws, 3, "x") for role in ("a", "b", "a")]
    assert got == [draws(3, "x")] * 3
    assert draws(3, "x") != draws(3, "y")
    assert draws(3, "x") != draws(4, "x")


def fail(numbers: torch.Tensor) -> None:
    raise ValueError(f"{numbers.numel()} numbers")


def test_the_default_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    draws(0, "a")
    with pytest.raises(ValueError, match=r"^5 numbers$"), drawn(0, "a"):
        fail(torch.rand(5))
    build_seeded(nn.Linear, 3, 4, seed=1, name="x", dtype="float32")
    assert torch.equal(torch.get_rng_state(), before)


def test_build_depends_on_seed_and_name_only() -> None:
    def weight(seed: int, name: str, dtype: str = "float32") -> torch.Tensor:
        return build_seeded(nn.Linear, 3, 4, seed=seed, name=name, dtype=dtype).weight.detach()

    assert torch.equal(weight(1, "x"), weight(1, "x"))
    assert torch.equal(weight(1, "x").double(), weight(1, "x", "float64"))
    assert not torch.equal(weight(1, "x"), weight(2, "x"))
    assert not torch.equal(weight(1, "x"), weight(1, "y"))


def test_integers_replace_the_parameters_in_their_order() -> None:
    """They are what the generator draws next, and go from -n to n."""
    layer = build_seeded(nn.Linear, 20, 5, seed=3, name="x", dtype="float64", integers=2)
    with drawn(3, "x"):
        nn.Linear(20, 5)
        weight, bias = torch.randint(-2, 3, (5, 20)), torch.randint(-2, 3, (5,))
    assert torch.equal(layer.weight, weight.double())
    assert torch.equal(layer.bias, bias.double())
    assert set(layer.weight.flatten().tolist()) == {-2.0, -1.0, 0.0, 1.0, 2.0}


def test_numbers_may_be_passed_by_name() -> None:
    by_name = build_seeded(nn.Linear, in_features=3, out_features=4, bias=False, seed=1, name="x", dtype="float32")
    assert torch.equal(by_name.weight, build_seeded(nn.Linear, 3, 4, seed=1, name="x", dtype="float32").weight)
    assert by_name.bias is None


def test_modules_built_at_once_do_not_mix_their_draws() -> None:
    def weight(name: str) -> torch.Tensor:
        return build_seeded(nn.Linear, 200, 200, seed=0, name=name, dtype="float32").weight.detach()

    names = [str(index) for index in range(16)]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(weight, names))
    assert all(torch.equal(got, weight(name)) for name, got in zip(names, together, strict=True))
