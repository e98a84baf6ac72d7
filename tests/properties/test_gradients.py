"""Cases of any size: a run's bits are its twin's, which tests/formulas compares with the formula's.

So are those of natural cases, or within the bound where another adds the gradients up. This holds for batch norm's
statistics and the order of arrival, which the twin replays; with dropout, whose masks each part draws by seed, name and
step; and for actions and rewards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest
from hypothesis import Phase, find, settings

from reference import TUTORIALS, hybrid_ddp, load
from reference.trace import compare
from reference.training.training_case import ExactableCase, TrainingCase
from reference.verify import judge
from reference.world import World
from tests.properties.cases import EXACT, NATURAL, Cases, resnets
from tests.properties.properties import assert_equal, differs, examples, idle_world, on
from tests.support import roles_idle
from tests.support.runs import run_in, twin


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with idle_world(request.param) as idle:
        yield idle


def equals_its_twin(test_name: str, tutorial: str, count: int, cases: Cases) -> Callable[..., None]:
    """Return the property, with ``count`` examples, that each of these cases of a tutorial has the bits of its twin."""

    def test(world: World, case: Any) -> None:
        assert_equal(world, case)

    test.__name__ = test.__qualname__ = test_name
    made: Callable[..., None] = on(tutorial)(examples(count, case=cases)(test))
    return made


_EXACT = {"parameter_server": 300, "batch_parameter_server": 220, "sharded_parameter_server": 150}
_EXACT |= {"pipeline": 100, "dist_autograd": 200, "hybrid_ddp": 100}
_NATURAL = {"parameter_server": 60, "batch_parameter_server": 80, "sharded_parameter_server": 60, "pipeline": 40}
_NATURAL |= {"rnn": 60, "reinforce": 40, "batch_reinforce": 40, "dist_autograd": 40}
_LONG = ("test_natural_batch_parameter_server", "test_natural_sharded_parameter_server")

for _kind, _counts, _cases in (("exact", _EXACT, EXACT), ("natural", _NATURAL, NATURAL)):
    for _tutorial, _count in _counts.items():
        _name = f"test_{_kind}_{_tutorial}"
        _test = equals_its_twin(_name, _tutorial, _count, _cases[_tutorial])
        globals()[_name] = pytest.mark.long(_test) if _name in _LONG else _test


def test_every_tutorial_that_trains_has_generated_cases() -> None:
    """Natural ones of hybrid_ddp have a test of their own."""
    kinds = {name: load(name).Case for name in TUTORIALS}
    trained = {name for name, kind in kinds.items() if issubclass(kind, TrainingCase)}
    assert set(NATURAL) == {*_NATURAL, "hybrid_ddp"} == trained
    assert set(EXACT) == set(_EXACT) == {name for name in trained if issubclass(kinds[name], ExactableCase)}


@pytest.mark.long
@on("hybrid_ddp")
@examples(60, case=NATURAL["hybrid_ddp"])
def test_natural_hybrid_ddp_equals_its_twin_or_is_within_the_bound(world: World, case: Any) -> None:
    """It is equal in rank order. From three trainers on, gloo's allreduce adds in an order of its own."""
    if case.accumulation == "rank" or case.trainers < 3:
        assert_equal(world, case)
        return
    difference, verdict = judge(run_in(world, case), hybrid_ddp.train_locally)
    assert verdict in ("equal", "within bound"), difference


@pytest.mark.long
@on("pipeline")
@examples(2, case=resnets())
def test_natural_pipeline_of_resnet50_equals_its_twin(world: World, case: Any) -> None:
    """The bits are compared, which is stricter than the bound: its 16 further twins would take minutes here."""
    assert compare(run_in(world, case), twin(case)).equal


@pytest.mark.parametrize("cases", [EXACT, NATURAL], ids=["exact", "natural"])
def test_a_planted_bug_is_found(cases: Mapping[str, Cases]) -> None:
    """Of each tutorial's bugs, tests/mutants/bugs names the tests that they fail."""
    searching = settings(max_examples=40, phases=[Phase.generate], derandomize=True, database=None)
    with idle_world("batch_parameter_server", before=roles_idle.forget_to_divide) as idle:
        find(cases["batch_parameter_server"], partial(differs, idle), settings=searching)
