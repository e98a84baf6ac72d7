"""The explainer: each mistake is named, and no other one is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn, optim

from reference import batch_parameter_server, hybrid_ddp, load, pipeline
from reference.conform.case_file import Prepared, prepare
from reference.conform.catalogue import CATALOGUE
from reference.conform.inputs import replay_of
from reference.explain.causal_order import causal_key
from reference.explain.explain import explain
from reference.explain.structure import structure
from reference.training import gradients

Tensors = dict[str, torch.Tensor]
SERVER, EXACT, WORKERS = "batch_parameter_server-002", "batch_parameter_server-001", "parameter_server-003"
PIPELINE, HYBRID, PASSES = "pipeline-002", "hybrid_ddp-002", "dist_autograd-001"


@lru_cache
def healthy(name: str) -> Prepared:
    return prepare(next(entry for entry in CATALOGUE if entry.id == name))


def unchanged(tensors: Tensors) -> Tensors:
    return tensors


@dataclass(frozen=True)
class Mistake:
    """A broken program: the twin under ``patch``, or its trace after ``change``; and what must be said of it."""

    name: str
    case: str
    cause: str
    text: str
    patch: Callable[[], AbstractContextManager[Any]] = nullcontext
    change: Callable[[Tensors], Tensors] = unchanged

    def trace(self) -> Tensors:
        case = healthy(self.case).case
        with self.patch():
            found = load(case.tutorial()).train_locally(case, replay_of(case))
        return self.change(dict(found.tensors))


def patched(target: Any, name: str, function: Callable[..., Any]) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: mock.patch.object(target, name, function)


def sgd(**settings: Any) -> Callable[[], AbstractContextManager[Any]]:
    def made(case: Any, model: nn.Module) -> optim.SGD:
        return optim.SGD(model.parameters(), **{"lr": case.lr, "momentum": case.momentum, **settings})

    return patched(batch_parameter_server, "sgd", made)


def summed(model: nn.Module, count: int, buffers: Sequence[Any]) -> None:
    gradients.average(model, 1, buffers)


def averaged_over(other: int, model: nn.Module, count: int, buffers: Sequence[Any]) -> None:
    gradients.average(model, other, buffers)


def accumulate_but(lost: int) -> Callable[..., None]:
    calls = iter(range(10**9))

    def accumulate(model: nn.Module, grads: Any, *, first: bool) -> None:
        if next(calls) % 3 != lost:
            gradients.accumulate(model, grads, first=first)

    return accumulate


def accumulate_twice(which: int) -> Callable[..., None]:
    calls = iter(range(10**9))

    def accumulate(model: nn.Module, grads: Any, *, first: bool) -> None:
        gradients.accumulate(model, [each.clone() for each in grads], first=first)
        if next(calls) % 3 == which:
            gradients.accumulate(model, grads, first=False)

    return accumulate


def batches(change: Callable[[list[Any]], list[Any]]) -> Callable[[], AbstractContextManager[Any]]:
    """Trainers whose batches are changed; one more is drawn than there are steps."""
    own = batch_parameter_server.Trainer.get_next_batch

    def get_next_batch(self: Any) -> Iterator[Any]:
        yield from change(list(own(self)))

    return patched(batch_parameter_server.Trainer, "get_next_batch", get_next_batch)


def shifted(found: list[Any]) -> list[Any]:
    return [*found[1:], found[0]]


def at(
    step: int, stage: str, change: Callable[[torch.Tensor], torch.Tensor], end: str = ""
) -> Callable[[Tensors], Tensors]:
    """Change the tensors of one stage from ``step`` on, those whose names have this end."""

    def changed(tensors: Tensors) -> Tensors:
        return {
            name: change(tensor)
            if name[:4].isdigit() and int(name[:4]) >= step and f"/{stage}/" in name and name.endswith(end)
            else tensor
            for name, tensor in tensors.items()
        }

    return changed


def early(tensors: Tensors) -> Tensors:
    """Record every step's parameters before its update."""
    found = dict(tensors)
    for name in tensors:
        if "/parameter/" in name:
            step, own = int(name[:4]), name.split("/", 2)[2]
            found[name] = tensors[f"{step - 1:04d}/parameter/{own}" if step else f"initial/{own}"]
    return found


def swapped(tensors: Tensors) -> Tensors:
    names = ("0000/loss/trainer1", "0000/loss/trainer2")
    return {**tensors, names[0]: tensors[names[1]], names[1]: tensors[names[0]]}


def pipeline_loss(_: Any) -> Callable[..., torch.Tensor]:
    return nn.MSELoss(reduction="sum")


def without_the_last(self: Any, shards: Any, x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError


MISTAKES = [
    Mistake(
        "summed",
        SERVER,
        "factor",
        "3 = trainers: summed, not averaged",
        patched(batch_parameter_server, "average", summed),
    ),
    Mistake(
        "averaged twice",
        EXACT,
        "factor",
        "1/4 * the reference's, 4 = trainers",
        patched(batch_parameter_server, "average", partial(averaged_over, 16)),
    ),
    Mistake(
        "one trainer missing",
        SERVER,
        "missing",
        "without trainer3",
        lambda: mock.patch.object(batch_parameter_server, "accumulate", accumulate_but(2)),
    ),
    Mistake(
        "one trainer twice",
        SERVER,
        "twice",
        "trainer2 counted twice",
        lambda: mock.patch.object(batch_parameter_server, "accumulate", accumulate_twice(1)),
    ),
    Mistake("no momentum", SERVER, "no-momentum", "without momentum", sgd(momentum=0.0)),
    Mistake("dampening", SERVER, "dampening", "with dampening 0.9", sgd(dampening=0.9)),
    Mistake("nesterov", SERVER, "nesterov", "with Nesterov's momentum", sgd(nesterov=True)),
    Mistake("weight decay", SERVER, "weight-decay", "with weight decay 0.0005", sgd(weight_decay=5e-4)),
    Mistake("another rate", SERVER, "rate", "with the rate 0.1 instead of 0.05", sgd(lr=0.1)),
    Mistake("no momentum, exact", EXACT, "no-momentum", "without momentum", sgd(momentum=0.0)),
    Mistake("next batch", SERVER, "other-batch", "of the next step's batch", batches(shifted)),
    Mistake("early", SERVER, "not-updated", "the parameters before the update", change=early),
    Mistake(
        "transposed",
        SERVER,
        "transposed",
        "transposed",
        change=at(0, "gradient", lambda t: t.t() if t.dim() == 2 else t),
    ),
    Mistake("swapped", SERVER, "other-tensor", "the reference's 0000/loss/trainer2", change=swapped),
    Mistake(
        "nan", SERVER, "nan", "NaN begins in 0002/gradient/1.bias", change=at(2, "gradient", lambda t: t * torch.nan)
    ),
    Mistake("negative", HYBRID, "factor", "-1 * the reference's", change=at(1, "gradient", torch.neg)),
    Mistake(
        "a loss that is a sum",
        PIPELINE,
        "factor",
        "50 = rows of a batch * classes",
        patched(pipeline, "loss_function", pipeline_loss),
    ),
    Mistake("a shifted gradient", SERVER, "unexplained", "Unexplained", change=at(1, "gradient", lambda t: t + 0.3)),
    Mistake("a rounded gradient", PASSES, "unexplained", "Unexplained", change=at(1, "gradient", lambda t: t + 0.3)),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.name)
def test_each_mistake_is_named(mistake: Mistake) -> None:
    found = explain(mistake.trace(), healthy(mistake.case).twin)
    assert (found.cause, mistake.text in str(found)) == (mistake.cause, True), found


@pytest.mark.parametrize("name", [entry.id for entry in CATALOGUE if entry.core])
def test_a_healthy_trace_has_no_difference(name: str) -> None:
    twin = healthy(name).twin
    assert explain({key: tensor.clone() for key, tensor in twin.tensors.items()}, twin).cause == ""


def test_the_first_difference_is_the_first_by_cause_not_by_name() -> None:
    names = ["0001/gradient/a", "0000/parameter/a", "initial/a", "0001/loss/b", "0000/buffer/a", "0000/loss/z"]
    assert sorted(names, key=causal_key) == [
        "initial/a", "0000/loss/z", "0000/parameter/a", "0000/buffer/a", "0001/loss/b", "0001/gradient/a"
    ]  # fmt: skip


def test_missing_names_are_one_line_per_reason() -> None:
    wanted = [f"{step:04d}/{kind}/{name}" for step in range(3) for kind in ("gradient", "loss") for name in "ab"]
    assert structure(wanted, wanted) == []
    later = [f"{int(name[:4]) + 1:04d}{name[4:]}" for name in wanted]
    assert structure(later, wanted) == ["yours lacks step 0000 and has a step 0003: counted from 1?"]
    without = [name for name in wanted if "gradient" not in name]
    assert structure(without, wanted) == ["yours lacks gradient/* in every step, 6 tensors"]
    assert structure(wanted[1:], wanted) == ["yours lacks 0000/gradient/a"]
    assert structure([*wanted, "x"], wanted) == ["yours has, and the reference does not, x"]


def test_a_distance_across_zero_is_not_told_in_ulps() -> None:
    twin = healthy(PASSES).twin
    name = "0000/gradient/context0/worker1"
    for change, told in ((lambda t: -t, False), (lambda t: t + 2.0**-40, True)):
        found = str(explain({**twin.tensors, name: change(twin.tensors[name])}, twin))
        assert bool(re.search(r"\d ULPs", found)) == told


def test_a_shape_of_one_is_told_and_its_number_compared() -> None:
    twin = healthy(PASSES).twin
    name = "0000/loss/context0"
    doubled = {key: tensor * 2 for key, tensor in twin.tensors.items() if key.startswith("0000/loss/")}
    found = explain({**twin.tensors, **doubled, name: doubled[name].reshape(1)}, twin)
    assert found.lines[0] == f"{name}: yours has shape (1,), the reference's (): one number, but with a dimension"
    assert "exactly 2 * the reference's" in str(found)


_ = (hybrid_ddp,)
