"""A stream of draws for each role, in one process as in several."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from reference.streams import Streams, build, start_stream
from reference.world import launch


def draws(seed: int, role: str, count: int) -> list[list[float]]:
    """Runs on ``role``."""
    start_stream(seed, role)
    return [torch.rand(2).tolist() for _ in range(count)]


def test_a_twin_draws_what_the_roles_draw() -> None:
    """However the roles take turns; and whatever the processes drew before."""
    with launch(["a", "b"]) as world:
        world.call("a", torch.rand, 7)
        wanted = {role: world.call(role, draws, 3, role, 3) for role in ("a", "b")}
    streams = Streams(3, "a", "b")
    got: dict[str, list[list[float]]] = {"a": [], "b": []}
    for role in ("b", "a", "a", "b", "a", "b"):
        with streams.of(role):
            got[role].append(torch.rand(2).tolist())
    assert got == wanted
    assert wanted["a"] != wanted["b"] != draws(4, "b", 3)


def fail(numbers: torch.Tensor) -> None:
    raise ValueError(f"{numbers.numel()} numbers")


def test_the_default_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    streams = Streams(0, "a")
    with streams.of("a"):
        torch.rand(5)
    with pytest.raises(ValueError, match=r"^5 numbers$"), streams.of("a"):
        fail(torch.rand(5))
    build(nn.Linear, 3, 4, seed=1, name="x", dtype="float32")
    assert torch.equal(torch.get_rng_state(), before)


def test_build_depends_on_seed_and_name_only() -> None:
    def weight(seed: int, name: str, dtype: str = "float32") -> torch.Tensor:
        return build(nn.Linear, 3, 4, seed=seed, name=name, dtype=dtype).weight.detach()

    assert torch.equal(weight(1, "x"), weight(1, "x"))
    assert torch.equal(weight(1, "x").double(), weight(1, "x", "float64"))
    assert not torch.equal(weight(1, "x"), weight(2, "x"))
    assert not torch.equal(weight(1, "x"), weight(1, "y"))


def test_modules_built_at_once_do_not_mix_their_draws() -> None:
    def weight(name: str) -> torch.Tensor:
        return build(nn.Linear, 200, 200, seed=0, name=name, dtype="float32").weight.detach()

    names = [str(index) for index in range(16)]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(weight, names))
    assert all(torch.equal(got, weight(name)) for name, got in zip(names, together, strict=True))
