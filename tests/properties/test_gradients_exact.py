"""Exact cases of any size: a run's bits are its twin's, and those of training without any of this code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from reference.training.rng import generator
from reference.world import World
from tests.properties import bugs
from tests.properties.cases import EXACT
from tests.properties.properties import counterexample, differs, equals_its_twin, examples, idle_world, on
from tests.support.runs import run_in


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with idle_world(request.param) as idle:
        yield idle


test_parameter_server_equals_its_twin = equals_its_twin("parameter_server", 300, EXACT["parameter_server"])
test_batch_parameter_server_equals_its_twin = equals_its_twin(
    "batch_parameter_server", 220, EXACT["batch_parameter_server"]
)
test_sharded_parameter_server_equals_its_twin = equals_its_twin(
    "sharded_parameter_server", 150, EXACT["sharded_parameter_server"]
)
test_pipeline_equals_its_twin = equals_its_twin("pipeline", 100, EXACT["pipeline"])
test_dist_autograd_equals_its_twin = equals_its_twin("dist_autograd", 200, EXACT["dist_autograd"])
test_hybrid_ddp_equals_its_twin = equals_its_twin("hybrid_ddp", 100, EXACT["hybrid_ddp"])


# The same, written anew: one model, one batch, one process. It shares nothing with the twins but how a seed's numbers
# are drawn, so a run and its twin cannot be wrong together.

Tensors = dict[str, torch.Tensor]
WIDTH = 8  # of the hidden layer that the batch server trains


def images(draws: torch.Generator, count: int, case: Any, sides: tuple[int, int]) -> Iterator[Any]:
    """Per step, rows of pixels from -1 to 1, and the weight of each output in the loss."""
    labels = 1 + torch.eye(case.num_classes)[torch.randint(case.num_classes, (count, 1), generator=draws)[:, 0]]
    while True:
        yield torch.randint(-1, 2, (count, 3, *sides), generator=draws).double().flatten(1), labels.double()


def linear_relu(layers: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """``layers`` are bias, weight, bias, weight, ...: the order of their names."""
    for place in range(0, len(layers), 2):
        x = x @ layers[place + 1].T + layers[place]
        x = x.relu() if place + 2 < len(layers) else x
    return x


def plain_training(initial: Tensors, batches: list[Any], lr: float, momentum: float = 0.0, parts: int = 1) -> Tensors:
    """SGD on the summed loss of everything, divided by ``parts``: gradients and parameters of every step."""
    names, values = list(initial), list(initial.values())
    velocity = [torch.zeros_like(value) for value in values]
    found: Tensors = {}
    for step, (inputs, weights) in enumerate(batches):
        values = [value.clone().requires_grad_() for value in values]
        loss = (linear_relu(values, inputs) * weights).sum() / parts
        gradients = torch.autograd.grad(loss, values)
        velocity = [momentum * v + g for v, g in zip(velocity, gradients, strict=True)]
        values = [value.detach() - lr * v for value, v in zip(values, velocity, strict=True)]
        found |= {f"{step:04d}/gradient/{name}": g for name, g in zip(names, gradients, strict=True)}
        found |= {f"{step:04d}/parameter/{name}": p for name, p in zip(names, values, strict=True)}
    return found


def initial_of(tensors: Tensors) -> Tensors:
    return {name.removeprefix("initial/"): t for name, t in tensors.items() if name.startswith("initial/")}


def assert_holds(tensors: Tensors, wanted: Tensors) -> None:
    """Equal numbers; a zero may have either sign. And nothing else was recorded of gradients and parameters."""
    assert {name for name in tensors if "/gradient/" in name or "/parameter/" in name} == set(wanted)
    for name, tensor in wanted.items():
        assert torch.equal(tensors[name], tensor), name


@on("batch_parameter_server")
@examples(60, case=EXACT["batch_parameter_server"])
def test_batch_parameter_server_is_plain_training(world: World, case: Any) -> None:
    """All trainers' images in one batch; the mean over trainers is the sum divided by them."""
    tensors = run_in(world, case).tensors
    initial = initial_of(tensors)
    assert [tuple(t.shape) for t in initial.values()][:2] == [(WIDTH,), (WIDTH, 3 * case.image_w * case.image_h)]
    names = [f"trainer{index}" for index in range(1, case.trainers + 1)]
    sides = case.image_w, case.image_h
    each = [images(generator(case.seed, name), case.batch_size, case, sides) for name in names]
    steps = [zip(*(next(batches) for batches in each), strict=True) for _ in range(case.steps)]
    batches = [tuple(torch.cat(parts) for parts in step) for step in steps]
    assert_holds(tensors, plain_training(initial, batches, case.lr, case.momentum, case.trainers))


@on("pipeline")
@examples(50, case=EXACT["pipeline"])
def test_pipeline_is_plain_training(world: World, case: Any) -> None:
    """One model that is not cut, and a batch that is not split."""
    tensors = run_in(world, case).tensors
    batches = images(generator(case.seed, "master"), case.batch_size, case, (case.image_h, case.image_w))
    assert_holds(tensors, plain_training(initial_of(tensors), [next(batches) for _ in range(case.steps)], case.lr))


@on("dist_autograd")
@examples(60, case=EXACT["dist_autograd"])
def test_dist_autograd_is_the_derivative_by_hand(world: World, case: Any) -> None:
    """The derivative of (c + 1) × Σ (a + b)² is 2 (c + 1) (a + b) by a and by b; a step's contexts share a and b."""
    tensors = run_in(world, case).tensors
    a, b = initial_of(tensors).values()
    for step in range(case.steps):
        total = a + b
        for context in range(case.contexts):
            gradient = 2 * (context + 1) * total
            a, b = a - case.lr * gradient, b - case.lr * gradient
            for owner in ("worker1", "worker2"):
                assert torch.equal(tensors[f"{step:04d}/gradient/context{context}/{owner}"], gradient)
        assert torch.equal(tensors[f"{step:04d}/parameter/worker1"], a)
        assert torch.equal(tensors[f"{step:04d}/parameter/worker2"], b)


@pytest.mark.parametrize(("name", "bug"), bugs.EXACT, ids=lambda value: getattr(value, "__name__", value))
def test_planted_bugs_are_found(name: str, bug: Callable[[str], None]) -> None:
    with idle_world(name, before=bug) as idle:
        counterexample(EXACT[name], differs(idle), count=30)


def test_a_planted_bug_shrinks_to_the_smallest_case_that_shows_it() -> None:
    """A mean that is only a sum: two trainers, and one step; with one there is nothing to divide."""
    with idle_world("batch_parameter_server", before=bugs.forget_to_divide) as idle:
        found = counterexample(EXACT["batch_parameter_server"], differs(idle), count=100, smallest=True)
    assert found.trainers == 2
    assert found.steps == 1
    assert found.batch_size == 2
    assert found.num_classes == 2
    assert found.seed == 0
    assert found.image_w == 4
    assert found.image_h == 4
    assert found.accumulation == "rank"


def test_plain_training_can_tell_a_wrong_run() -> None:
    """The twin is not asked here: a run without its division is not plain training either."""
    with idle_world("batch_parameter_server", before=bugs.forget_to_divide) as idle:
        found = counterexample(EXACT["batch_parameter_server"], _fails(idle), count=30)
    assert found.trainers > 1


def _fails(idle: World) -> Callable[[Any], bool]:
    def fails(case: Any) -> bool:
        try:
            test_batch_parameter_server_is_plain_training.hypothesis.inner_test(idle, case)
        except AssertionError:
            return True
        return False

    return fails
