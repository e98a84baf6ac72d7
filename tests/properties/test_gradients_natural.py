"""Natural cases in float32: bits equal to the twin's, or within the bound where another adds the gradients up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from reference.trace import compare
from reference.world import World
from tests.properties import bugs
from tests.properties.cases import NATURAL, resnets
from tests.properties.properties import (
    assert_equal,
    counterexample,
    differs,
    equals_its_twin,
    examples,
    idle_world,
    judged,
    on,
)
from tests.support.runs import run_in, twin


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with idle_world(request.param) as idle:
        yield idle


test_parameter_server_equals_its_twin = equals_its_twin("parameter_server", 60, NATURAL["parameter_server"])
# This holds for batch norm's statistics, too, and for the order of arrival, which the twin replays.
test_batch_parameter_server_equals_its_twin = pytest.mark.long(
    equals_its_twin("batch_parameter_server", 80, NATURAL["batch_parameter_server"])
)
test_sharded_parameter_server_equals_its_twin = pytest.mark.long(
    equals_its_twin("sharded_parameter_server", 60, NATURAL["sharded_parameter_server"])
)
test_pipeline_of_linear_layers_equals_its_twin = equals_its_twin("pipeline", 40, NATURAL["pipeline"])
# Even with dropout: each part draws its masks by seed, name and step.
test_rnn_equals_its_twin = equals_its_twin("rnn", 60, NATURAL["rnn"])
# Actions and rewards, too.
test_reinforce_equals_its_twin = equals_its_twin("reinforce", 40, NATURAL["reinforce"])
test_batch_reinforce_equals_its_twin = equals_its_twin("batch_reinforce", 40, NATURAL["batch_reinforce"])


@pytest.mark.long
@on("hybrid_ddp")
@examples(60, case=NATURAL["hybrid_ddp"])
def test_hybrid_ddp_equals_its_twin_or_is_within_the_bound(world: World, case: Any) -> None:
    """It is equal in rank order. From three trainers on, gloo's allreduce adds in an order of its own."""
    if case.accumulation == "rank" or case.trainers < 3:
        assert_equal(world, case)
        return
    verdict, difference = judged(run_in(world, case))
    assert verdict in ("equal", "within bound"), difference


@pytest.mark.long
@on("pipeline")
@examples(2, case=resnets())
def test_pipeline_of_resnet50_equals_its_twin(world: World, case: Any) -> None:
    """The bits are compared, which is stricter than the bound: its 16 further twins would take minutes here."""
    assert compare(run_in(world, case), twin(case)).equal


@pytest.mark.parametrize(("name", "bug"), bugs.NATURAL, ids=lambda value: getattr(value, "__name__", value))
def test_planted_bugs_are_found(name: str, bug: Callable[[str], None]) -> None:
    with idle_world(name, before=bug) as idle:
        counterexample(NATURAL[name], differs(idle), count=40)
