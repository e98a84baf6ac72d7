"""Twins in other orders: every summing operator sums in another order, and still computes the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from reference.rounding.reordering import Reordered

Tensor = torch.Tensor
Terms = Callable[..., Tensor]


def reals(dtype: torch.dtype = torch.float32) -> Terms:
    draws = torch.Generator().manual_seed(0)
    return lambda *shape: torch.randn(shape, generator=draws).to(dtype)


def gradients(output: Tensor, *of: Tensor) -> list[Tensor]:
    """The output, and the gradients of a weighted sum of it."""
    weights = torch.linspace(1, 2, output.numel(), dtype=output.dtype).reshape(output.shape)
    return [output.detach(), *torch.autograd.grad((output * weights).sum(), of)]


def leaves(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(tensor.requires_grad_() for tensor in tensors)


def linear(make: Terms) -> list[Tensor]:
    x, weight, bias = leaves(make(9, 40), make(5, 40), make(5))
    return gradients(F.linear(x, weight, bias), x, weight, bias)


def convolution(make: Terms) -> list[Tensor]:
    x, weight = leaves(make(6, 20, 9, 9), make(12, 20, 3, 3))
    return gradients(F.conv2d(x, weight, stride=2, padding=1), x, weight)


def batch_norm(make: Terms) -> list[Tensor]:
    x, weight, bias = leaves(make(6, 4, 7, 7), make(4), make(4))
    mean, var = torch.zeros(4, dtype=x.dtype), torch.ones(4, dtype=x.dtype)
    trained = gradients(F.batch_norm(x, mean, var, weight, bias, training=True), x, weight, bias)
    return [*trained, *gradients(F.batch_norm(x, mean, var, weight, bias), x, weight, bias), mean, var]


def softmax(make: Terms) -> list[Tensor]:
    (x,) = leaves(make(5, 60))
    return [*gradients(F.softmax(x, 1), x), *gradients(F.log_softmax(x, 1), x)]


def cross_entropy(make: Terms) -> list[Tensor]:
    (x,) = leaves(make(50, 7))
    kinds = torch.arange(50) % 7
    losses = F.cross_entropy(x, kinds), F.cross_entropy(x, kinds, reduction="none"), F.cross_entropy(x[0], kinds[0])
    return [each for loss in losses for each in gradients(loss, x)]


def squared_error(make: Terms) -> list[Tensor]:
    (x,) = leaves(make(50, 7))
    return [*gradients(F.mse_loss(x, make(50, 7)), x), *gradients(x.mean(), x), *gradients(x.mean((0, 1)), x)]


def pooling(make: Terms) -> list[Tensor]:
    (x,) = leaves(make(2, 3, 12, 12))
    return [*gradients(F.adaptive_avg_pool2d(x, 2), x), *gradients(F.max_pool2d(x, 3, stride=1), x)]


def embedding(make: Terms) -> list[Tensor]:
    (table,) = leaves(make(4, 6))
    return gradients(F.embedding(torch.arange(80) % 4, table), table)


def embedding_bag(make: Terms) -> list[Tensor]:
    (table,) = leaves(make(9, 6))
    indices, offsets = torch.arange(80) % 9, torch.tensor([0, 30, 50])
    return gradients(F.embedding_bag(indices, table, offsets, mode="sum"), table)


def scatter(make: Terms) -> list[Tensor]:
    x, source = leaves(make(3), make(60))
    return gradients(x.scatter_add(0, torch.arange(60) % 3, source), x, source)


def lstm(make: Terms) -> list[Tensor]:
    x, *weights = leaves(make(5, 3, 8), make(16, 8), make(16, 4), make(16), make(16))
    state = torch.zeros(1, 3, 4, dtype=x.dtype)
    return gradients(torch.lstm(x, (state, state), weights, True, 1, 0.0, True, False, False)[0], x, *weights)


SUMMING: Mapping[str, Callable[[Terms], list[Tensor]]] = {
    "mm": lambda make: [make(9, 40) @ make(40, 5)],
    "sum": lambda make: [
        make(99).sum(),
        make(40, 9).sum(0),
        make(9, 40, 2).sum((1, 2), keepdim=True),
        make(4, 5).sum((), keepdim=True),
    ],
    "linear": linear,
    "convolution": convolution,
    "batch norm": batch_norm,
    "softmax": softmax,
    "cross entropy": cross_entropy,
    "squared error": squared_error,
    "pooling": pooling,
    "embedding": embedding,
    "embedding bag": embedding_bag,
    "scatter": scatter,
    "LSTM": lstm,
}


def computed(kind: str, make: Terms, seed: int | None = None, **options: Any) -> list[Tensor]:
    if seed is None:
        return SUMMING[kind](make)
    with Reordered(seed, **options):
        return SUMMING[kind](make)


@pytest.mark.parametrize("kind", SUMMING)
def test_every_sum_runs_in_another_order(kind: str) -> None:
    """No rounding is simulated: each of the results, gradients too, has other bits for some of the seeds."""
    plain = computed(kind, reals())
    others = [computed(kind, reals(), seed, rounding=False) for seed in range(8)]
    moved = [any(not torch.equal(each[i], tensor) for each in others) for i, tensor in enumerate(plain)]
    assert any(moved)
    if kind in ("linear", "convolution", "batch norm", "LSTM"):
        assert all(moved[:4])  # a running variance hides its rounding beside a 1


@pytest.mark.parametrize("kind", SUMMING)
def test_what_is_computed_stays_the_same(kind: str) -> None:
    """In float64, up to its rounding; a wrong permutation is off by about 1."""
    plain = computed(kind, reals(torch.float64))
    for seed in range(4):
        for got, wanted in zip(computed(kind, reals(torch.float64), seed), plain, strict=True):
            assert got.shape == wanted.shape
            assert float((got - wanted).norm()) <= 1e-12 * float(wanted.norm())


def test_a_batch_norm_is_torchs_in_some_orders_and_the_formulas_in_others() -> None:
    """Of two images each sum has two terms, and torch's batch norm has the same bits in either order of them."""

    def norm() -> list[Tensor]:
        make = reals()
        x, weight, bias = leaves(make(2, 64), make(64), make(64))
        return gradients(F.batch_norm(x, make(64), make(64), weight, bias, training=True), x, weight, bias)[:2]

    forms, plain = set(), norm()
    for seed in range(32):
        with Reordered(seed, rounding=False):
            forms.add(tuple(map(torch.equal, norm(), plain)))
    assert forms >= {(True, True), (True, False), (False, False)}


def test_each_seed_is_another_order() -> None:
    results = [computed("mm", reals(), seed)[0] for seed in (1, 1, 2, 3)]
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[1], results[2])
    assert not torch.equal(results[2], results[3])


def test_a_program_without_sums_still_rounds_otherwise() -> None:
    """Each rounding moves by at most one place, and exact results do not move."""
    x = torch.linspace(0.1, 0.9, 1000)
    with Reordered(0):
        third, twice, zero = x / 3, x * 2, x * 0
    assert (third < x / 3).sum() > 250
    assert (third > x / 3).sum() > 250
    assert ((third - x / 3).abs() <= torch.finfo(torch.float32).eps * (x / 3)).all()
    assert ((twice - x * 2).abs() <= torch.finfo(torch.float32).eps * x * 2).all()
    assert not zero.any()


def test_a_unit_at_the_kink_of_a_relu_is_decided_by_the_seed() -> None:
    """It passes its gradient on in some orders; one that is 0, or far from it, never changes."""
    decided = []
    for seed in range(16):
        x = torch.tensor([1e-8, -1e-8, 0.0, 1e-5, -1e-5, 1.0], requires_grad=True)
        with Reordered(seed):
            F.relu(x * 1).sum().backward()
        assert x.grad is not None
        decided.append(x.grad.tolist())
    assert [sorted({int(each[i] > 0) for each in decided}) for i in range(6)] == [[0, 1], [0, 1], [0], [1], [0], [1]]


def test_the_block_leaves_torch_as_it_was() -> None:
    before = torch.backends.mkldnn.enabled
    with pytest.raises(KeyError), Reordered(0):
        raise KeyError
    assert torch.backends.mkldnn.enabled is before


def test_an_operator_that_is_not_known_is_named() -> None:
    with Reordered(0) as mode:
        torch.cumsum(reals()(9), 0)
    assert mode.passed == {"cumsum.default"}
