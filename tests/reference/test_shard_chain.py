"""The chain of parameters: gradients add up in one order, whatever order the engine works in."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from reference.rpc.shard import ParameterChain
from reference.trace.trace import ulps

SPLITS = 8


def model_and_parts(seed: int) -> tuple[nn.Module, list[torch.Tensor]]:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
    return model, list(torch.randn(SPLITS * 4, 16).chunk(SPLITS))


def gradients(
    use: Callable[[nn.Module], Callable[[torch.Tensor], torch.Tensor]], seed: int, *, threads: bool
) -> list[torch.Tensor]:
    """The gradients of one backward pass over all parts; ``threads``: each part's forward pass has its own thread.

    Nodes are counted by thread, so the engine then works on all parts at once.
    """
    model, parts = model_and_parts(seed)
    compute = use(model)
    outputs = []
    for part in parts:
        if threads:
            with ThreadPoolExecutor(1) as thread:
                outputs.append(thread.submit(compute, part).result())
        else:
            outputs.append(compute(part))
    torch.cat(outputs).pow(2).mean().backward()
    return [p.grad for p in model.parameters() if p.grad is not None]


def plain(model: nn.Module) -> nn.Module:
    return model


def chained(model: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    chain = ParameterChain(model)
    chain.restart()

    def compute(part: torch.Tensor) -> torch.Tensor:
        with chain.link():
            return model(part)  # type: ignore[no-any-return]

    return compute


def differ(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    assert len(a) == len(b) == 6
    return any(ulps(x, y) > 0 for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("threads", [False, True])
def test_the_chain_has_the_bits_of_a_plain_backward_pass(seed: int, threads: bool) -> None:
    assert not differ(gradients(chained, seed, threads=threads), gradients(plain, seed, threads=False))


def test_without_the_chain_threads_decide_bits() -> None:
    """This is why the chain exists. If this fails, torch orders its nodes in another way, and the chain can go."""
    found = [differ(gradients(plain, seed, threads=True), gradients(plain, seed, threads=False)) for seed in range(5)]
    assert any(found)


def test_after_a_link_the_module_has_its_parameters_again() -> None:
    """In their order, and also if what used the link failed."""
    model, parts = model_and_parts(0)
    own = dict(model.named_parameters())
    chain = ParameterChain(model)
    chain.restart()
    with chain.link():
        model(parts[0])
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), chain.link():
        model(torch.ones(1, 3))
    found = dict(model.named_parameters())
    assert list(found) == list(own)
    assert all(found[name] is parameter for name, parameter in own.items())
