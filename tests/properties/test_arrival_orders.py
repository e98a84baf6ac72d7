"""Every order in which up to four trainers can arrive, forced by `Order` faults: 33 orders, added up in both ways."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from faults.plan import Fault, Plan
from reference.batch_parameter_server import Case
from reference.trace import Trace, compare
from reference.world import World
from tests.properties.properties import idle_world, run_under
from tests.support.runs import against_twin, twin

SITE = "reference.batch_parameter_server:BatchUpdateParameterServer.update_and_fetch_model"
Order = tuple[int, ...]
ORDERS = [order for count in (1, 2, 3, 4) for order in permutations(range(count))]
STEPS = 2


def named(order: Order) -> str:
    return "-".join(map(str, order))


def case_of(trainers: int, accumulation: str) -> Case:
    """Natural float32 with batch norm, where any other order of three or more gives other bits."""
    sizes: dict[str, Any] = {"batch_size": 2, "image_w": 4, "image_h": 4, "num_classes": 3}
    how: dict[str, Any] = {"model": "convnet", "steps": STEPS, "lr": 0.1, "timeout": 20}
    return Case(trainers=trainers, accumulation=accumulation, **sizes, **how)


@lru_cache
def rank_twin(trainers: int) -> Trace:
    return twin(case_of(trainers, "rank"))


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with idle_world("batch_parameter_server") as idle:
        yield idle


def run_in_order(world: World, order: Order, accumulation: str, folder: Path) -> Trace:
    """Run a case whose reports the server lets in in this order, in every round. A single trainer has no other."""
    names = tuple(f"trainer{index + 1}" for index in order)
    faults = (Fault(kind="Order", site=SITE, roles=names, every=True, seconds=20),) if len(names) > 1 else ()
    trace, timeline = run_under(world, case_of(len(order), accumulation), Plan(faults), folder)
    assert [each.details["executed"] for each in timeline.of("effective")] == [list(names)] * STEPS * len(faults)
    return trace


@pytest.mark.parametrize("order", [each for each in ORDERS if len(each) > 2], ids=named)  # a + b has the bits of b + a
def test_in_rank_order_no_order_of_arrival_decides_bits(world: World, order: Order, tmp_path: Path) -> None:
    """The bits of one twin that knows of no order."""
    assert compare(run_in_order(world, order, "rank", tmp_path), rank_twin(len(order))).equal


@pytest.mark.parametrize("order", ORDERS, ids=named)
def test_in_order_of_arrival_the_replay_has_the_bits(world: World, order: Order, tmp_path: Path) -> None:
    """The order is what the trace says, and its twin's bits are those of that order."""
    trace = run_in_order(world, order, "arrival", tmp_path)
    assert [trace.tensors[f"{step:04d}/arrivals"].tolist() for step in range(STEPS)] == [list(order)] * STEPS
    assert against_twin(trace).equal
