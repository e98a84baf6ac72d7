"""Exact cases of any size: a run's bits are its twin's, which tests/formulas compares with the formula's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from reference.world import World
from tests.properties import bugs
from tests.properties.cases import EXACT
from tests.properties.properties import counterexample, differs, equals_its_twin, idle_world


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


@pytest.mark.parametrize(("name", "bug"), bugs.EXACT, ids=lambda value: getattr(value, "__name__", value))
def test_planted_bugs_are_found(name: str, bug: Callable[[str], None]) -> None:
    with idle_world(name, before=bug) as idle:
        counterexample(EXACT[name], differs(idle), count=30)
