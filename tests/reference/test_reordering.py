"""Twins in other orders: every summing operator sums in another order, and still computes the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F

from reference.rounding.reordering import Reordered
from tests.support.reordering import Unrounded, Watching

Tensor = torch.Tensor


def gradients(output: Tensor, *of: Tensor) -> list[Tensor]:
    """The output, and the gradients of a weighted sum of it."""
    weights = torch.linspace(1, 2, output.numel(), dtype=output.dtype).reshape(output.shape)
    return [output.detach(), *torch.autograd.grad((output * weights).sum(), of)]


def batch_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """What training puts out, and the running statistics."""
    mean, var = x.new_zeros(4), x.new_ones(4)
    return torch.cat([F.batch_norm(x, mean, var, weight, bias, training=True).flatten(), mean, var])


def lstm(x: Tensor, *weights: Tensor) -> Tensor:
    state = x.new_zeros(1, 3, 4)
    return torch.lstm(x, (state, state), weights, True, 1, 0.0, True, False, False)[0]


KINDS = torch.arange(50) % 7
IMAGES, BATCH, NORMED = (2, 3, 12, 12), (50, 7), [(6, 4, 7, 7), (4,), (4,)]
# What sums, and the shapes of its inputs.
SUMMING: Mapping[str, tuple[Callable[..., Tensor], list[tuple[int, ...]]]] = {
    "mm": (torch.mm, [(9, 40), (40, 5)]),
    "sum": (torch.sum, [(99,)]),
    "sum of rows": (lambda x: x.sum(0), [(40, 9)]),
    "sum of two dimensions": (lambda x: x.sum((1, 2), keepdim=True), [(9, 40, 2)]),
    "sum of all dimensions": (lambda x: x.sum((), keepdim=True), [(9, 40)]),
    "mean": (torch.mean, [BATCH]),
    "mean of two dimensions": (lambda x: x.mean((0, 1)), [BATCH]),
    "linear": (F.linear, [(9, 40), (5, 40), (5,)]),
    "convolution": (lambda x, weight: F.conv2d(x, weight, stride=2, padding=1), [(6, 20, 9, 9), (12, 20, 3, 3)]),
    "batch norm": (batch_norm, NORMED),
    "batch norm, trained": (lambda x, *of: F.batch_norm(x, x.new_zeros(4), x.new_ones(4), *of), NORMED),
    "softmax": (lambda x: F.softmax(x, 1), [(5, 60)]),
    "log softmax": (lambda x: F.log_softmax(x, 1), [(5, 60)]),
    "cross entropy": (lambda x: F.cross_entropy(x, KINDS), [BATCH]),
    "cross entropy of each": (lambda x: F.cross_entropy(x, KINDS, reduction="none"), [BATCH]),
    "cross entropy of one": (lambda x: F.cross_entropy(x, KINDS[3]), [(60,)]),
    "squared error": (F.mse_loss, [BATCH, BATCH]),
    "average pooling": (lambda x: F.adaptive_avg_pool2d(x, 2), [IMAGES]),
    "maximum pooling": (lambda x: F.max_pool2d(x, 3, stride=1), [IMAGES]),
    "embedding": (lambda table: F.embedding(torch.arange(80) % 4, table), [(4, 6)]),
    "embedding bag": (
        lambda table: F.embedding_bag(torch.arange(80) % 9, table, torch.tensor([0, 30, 50]), mode="sum"),
        [(9, 6)],
    ),
    "scatter": (lambda x, source: x.scatter_add(0, torch.arange(60) % 3, source), [(3,), (60,)]),
    "LSTM": (lstm, [(5, 3, 8), (16, 8), (16, 4), (16,), (16,)]),
}


def drawn(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    draws = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=draws).to(dtype).requires_grad_() for shape in shapes]


def computed(
    kind: str, seed: int | None, dtype: torch.dtype = torch.float32, mode: type[Reordered] = Reordered
) -> list[Tensor]:
    """The result and its gradients, in torch's order or in that of a seed."""
    function, shapes = SUMMING[kind]
    inputs = drawn(*shapes, dtype=dtype)
    with nullcontext() if seed is None else mode(seed):
        return gradients(function(*inputs), *inputs)


@pytest.mark.parametrize("kind", SUMMING)
def test_every_sum_runs_in_another_order(kind: str) -> None:
    """No rounding is simulated: each of the results, gradients too, has other bits for some of the seeds."""
    plain = computed(kind, None)
    others = [computed(kind, seed, mode=Unrounded) for seed in range(8)]
    moved = [any(not torch.equal(each[i], tensor) for each in others) for i, tensor in enumerate(plain)]
    assert any(moved)
    if kind in ("linear", "convolution", "batch norm", "LSTM"):
        assert all(moved[:4])


@pytest.mark.parametrize("kind", SUMMING)
def test_what_is_computed_stays_the_same(kind: str) -> None:
    """In float64, up to its rounding; a wrong permutation is off by about 1."""
    plain = computed(kind, None, torch.float64)
    for seed in range(4):
        for got, wanted in zip(computed(kind, seed, torch.float64), plain, strict=True):
            assert got.shape == wanted.shape
            assert float((got - wanted).norm()) <= 1e-12 * float(wanted.norm())


def test_a_batch_norm_is_torchs_in_some_orders_and_the_formulas_in_others() -> None:
    """Of two images each sum has two terms, and torch's batch norm has the same bits in either order of them."""

    def norm() -> list[Tensor]:
        x, weight, bias = drawn((2, 64), (64,), (64,))
        normed = F.batch_norm(x, torch.zeros(64), torch.ones(64), weight, bias, training=True)
        return gradients(normed, x, weight, bias)[:2]

    forms, plain = set(), norm()
    for seed in range(32):
        with Unrounded(seed):
            forms.add(tuple(map(torch.equal, norm(), plain)))
    assert forms >= {(True, True), (True, False), (False, False)}


def test_each_seed_is_another_order() -> None:
    results = [computed("mm", seed)[0] for seed in (1, 1, 2, 3)]
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


def test_an_operator_that_works_in_place_rounds_otherwise_too() -> None:
    x, third = torch.linspace(0.1, 0.9, 1000), torch.tensor(1 / 3)
    with Reordered(0):
        moved = x.clone().sub_(third)
    assert (moved != x - third).sum() > 500


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
    with Watching(0) as mode:
        torch.cumsum(torch.ones(9), 0)
    assert mode.unknown == {"cumsum.default"}
