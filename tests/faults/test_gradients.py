"""Faults of the gradients that distributed autograd sends, in a real world: by count, by effect, and by the ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from faults.ledger import Timeline, ledger
from faults.ledger.moments_seen import census
from faults.plan.fields import BACKWARD
from reference.world import World, launch
from tests.support import roles_engine as engine
from tests.support.active_plan import played

# Of three passes with x = 1, 2, 3 and y = 1, 2, 3: the gradient of x is 3y, and that of y is 3x.
HEALTHY = [([3.0, 6.0, 9.0], [3.0 * n] * 3) for n in (1, 2, 3)]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with launch(["a", "b"], deadline=900) as world:
        yield world


def hurt(world: World, folder: Path, plan: str) -> tuple[list[tuple[list[float], list[float]]], Timeline]:
    found = played(world, folder, plan, engine.backwards, "b", 3)
    return found, ledger.read(folder)


def test_every_gradient_is_counted_at_its_sender(world: World, tmp_path: Path) -> None:
    """Role a sends that of the product, and that of y; role b sends that of x."""
    found, timeline = hurt(world, tmp_path, f"Delay site={BACKWARD} role=b nth=9 side=request seconds=1")
    assert found == HEALTHY
    assert census(timeline)[BACKWARD].callers == {"a": 6, "b": 3}
    assert census(timeline)[BACKWARD].callees == ()


def test_a_delay_loses_nothing(world: World, tmp_path: Path) -> None:
    plan = "; ".join(f"Delay site={BACKWARD} role={role} nth=2 side=request seconds=0.1" for role in "ab")
    found, timeline = hurt(world, tmp_path, plan)
    assert found == HEALTHY
    assert [(each.role, each.details["nth"]) for each in timeline.of("fired")] == [("a", 2), ("b", 2)]
    assert all(each.details["seconds"] >= 0.1 for each in timeline.of("effective"))
    assert len(timeline.of("effective")) == 2


@pytest.mark.parametrize(
    ("how", "wanted"),
    [("zeros", [0.0, 0.0, 0.0]), ("nan", [3.0, 6.0, 9.0]), ("bit", [3.0, 6.0, 9.0])],
)
def test_a_corrupted_gradient_is_the_one_that_arrives(
    world: World, tmp_path: Path, how: str, wanted: list[float]
) -> None:
    """The gradient of x in the second pass: 3y, which role b sends."""
    found, timeline = hurt(world, tmp_path, f"seed=1; Corrupt site={BACKWARD} role=b nth=2 side=request change={how}")
    assert found[0] == HEALTHY[0]
    assert found[2] == HEALTHY[2]
    (fired,) = timeline.of("fired")
    assert fired.role == "b"
    assert fired.details["dtype"] == "float64"
    assert fired.details["shape"] == [3]
    if how != "zeros":
        (place,) = fired.details["element"]
        assert float(fired.details["old"]) == wanted[place]
        wanted = [*wanted[:place], float(fired.details["new"]), *wanted[place + 1 :]]
    assert np.array_equal(found[1][0], wanted, equal_nan=True)
    (effective,) = timeline.of("effective")
    assert effective.details["digest"] == hashlib.sha256(np.array(found[1][0]).tobytes()).hexdigest()[:16]


def test_a_moment_comes_before_the_gradient_leaves(world: World, tmp_path: Path) -> None:
    plan = f"Pause role=b at=call:{BACKWARD}#2@a seconds=0.2"
    found, timeline = hurt(world, tmp_path, plan)
    assert found == HEALTHY
    (fired,) = timeline.of("fired")
    numbers = [each.details["nth"] for each in timeline.of("gradient") if each.role == "a"]
    assert numbers == [1, 2, 3, 4, 5, 6]
    after = next(each for each in timeline.of("gradient") if (each.role, each.details["nth"]) == ("a", 2))
    assert fired.time <= after.time
