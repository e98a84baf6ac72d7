"""Every order in which up to four trainers can arrive, forced by `Order` faults: 33 orders, added up in both ways."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from faults.ledger import Timeline
from faults.plan import Fault, Plan
from reference.batch_parameter_server import Case
from reference.trace import Trace, compare
from reference.world import World
from tests.properties import bugs
from tests.properties.properties import idle_world, run_under
from tests.support.runs import against_twin, twin

SITE = "reference.batch_parameter_server:BatchUpdateParameterServer.update_and_fetch_model"
ORDERS = [order for count in (1, 2, 3, 4) for order in permutations(range(count))]
STEPS = 2


def case_of(trainers: int, accumulation: str) -> Case:
    """Natural float32 with batch norm, where any other order of three or more gives other bits."""
    sizes: dict[str, Any] = {"batch_size": 2, "image_w": 4, "image_h": 4, "num_classes": 3}
    how: dict[str, Any] = {"model": "convnet", "steps": STEPS, "lr": 0.1, "timeout": 20}
    return Case(trainers=trainers, accumulation=accumulation, **sizes, **how)


def plan_of(order: tuple[int, ...]) -> Plan:
    """Every round in this order. A single trainer has no other."""
    roles = tuple(f"trainer{index + 1}" for index in order)
    return Plan((Fault(kind="Order", site=SITE, roles=roles, every=True, seconds=20),) if len(roles) > 1 else ())


@lru_cache
def rank_twin(trainers: int) -> Trace:
    return twin(case_of(trainers, "rank"))


def executed(timeline: Timeline) -> list[list[str]]:
    """Per round, in which order the fault let the reports in."""
    return [event.details["executed"] for event in timeline.of("effective")]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with idle_world("batch_parameter_server") as idle:
        yield idle


def test_all_orders_of_arrival_are_tried() -> None:
    assert len(ORDERS) == len(set(ORDERS)) == 1 + 2 + 6 + 24


def names(order: tuple[int, ...]) -> list[str]:
    return [f"trainer{index + 1}" for index in order]


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "-".join(map(str, order)))
def test_in_rank_order_no_order_of_arrival_decides_bits(world: World, order: tuple[int, ...], tmp_path: Path) -> None:
    """The bits of one twin that knows of no order."""
    trace, timeline = run_under(world, case_of(len(order), "rank"), plan_of(order), tmp_path)
    assert executed(timeline) == ([names(order)] * STEPS if len(order) > 1 else [])
    assert compare(trace, rank_twin(len(order))).equal


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "-".join(map(str, order)))
def test_in_order_of_arrival_the_replay_has_the_bits(world: World, order: tuple[int, ...], tmp_path: Path) -> None:
    """The order is what the trace says, and its twin's bits are those of that order."""
    trace, timeline = run_under(world, case_of(len(order), "arrival"), plan_of(order), tmp_path)
    assert executed(timeline) == ([names(order)] * STEPS if len(order) > 1 else [])
    assert [trace.tensors[f"{step:04d}/arrivals"].tolist() for step in range(STEPS)] == [list(order)] * STEPS
    assert against_twin(trace).equal


def test_the_order_decides_bits(world: World, tmp_path: Path) -> None:
    """Otherwise the tests above could not fail: 8 of the 24 orders, added as they arrive, give many results."""
    found = set()
    for order in ORDERS[-24::3]:
        trace, _ = run_under(world, case_of(4, "arrival"), plan_of(order), tmp_path)
        found.add(trace.tensors["0000/gradient/0.weight"].numpy().tobytes())
    assert len(found) > 3


def test_planted_bugs_are_found(tmp_path: Path) -> None:
    """A server that adds in order of arrival though the case says rank; and a trace that swaps who arrived."""
    last_first = plan_of((2, 1, 0))
    with idle_world("batch_parameter_server", before=bugs.add_in_order_of_arrival) as idle:
        trace, _ = run_under(idle, case_of(3, "rank"), last_first, tmp_path)
        assert not compare(trace, rank_twin(3)).equal
    with idle_world("batch_parameter_server", before=bugs.swap_arrivals) as idle:
        trace, _ = run_under(idle, case_of(3, "arrival"), last_first, tmp_path)
        assert trace.tensors["0000/arrivals"].tolist() == [0, 1, 2]
        assert not against_twin(trace).equal
