"""What torch sends by itself: the fetches of `RRef.to_here()`, and the gradients of distributed autograd (torch 2.13).

What cannot be hurt is refused. In a real world: by count, by effect, and by the ledger.
"""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from faults.ledger import Timeline, ledger
from faults.ledger.error_links import CALLEE
from faults.ledger.moments_seen import census
from faults.plan import Plan, PlanError
from faults.plan.fields import BACKWARD, TO_HERE
from faults.run.runs import prepared, scope
from faults.strategies import plans
from reference.world import World, launch
from tests.support import roles_engine as engine
from tests.support import roles_shop as shop
from tests.support.active_plan import played

pytestmark = pytest.mark.world("a", "b")


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (f"Corrupt site={TO_HERE} side=request change=nan", "wants 'side' 'reply', got 'request', which holds no tens"),
        (f"Delay site={BACKWARD} side=reply seconds=1", "wants 'side' 'request', got 'reply', which is empty"),
        (f"Duplicate site={BACKWARD}", f"Duplicate cannot hit {BACKWARD}: torch sends gradients itself"),
        (f"Delay site={BACKWARD} to=b side=request seconds=1", "has no 'to': Python does not see to which role"),
    ],
)
def test_what_cannot_be_hurt_is_refused_with_the_reason(plan: str, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        Plan.parse(plan)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


SITES = {TO_HERE: {"a": 3, "b": 1}, BACKWARD: {"a": 2, "b": 2}}


@settings(deadline=None, max_examples=200)
@given(plans(SITES, ["a", "b"], places=["call"], kinds=["Delay", "Drop", "Order", "Corrupt", "Crash"]))
def test_only_plans_that_can_hurt_are_drawn(plan: Plan) -> None:
    assert all(fault.traits.refusal(fault) is None for fault in plan.faults)


VALUE = list(engine.VALUE)
TIMEOUT = 0.3
LATE = "RPC ran for more than set timeout"
OWNER = "On WorkerInfo(id=1, name=b):"

# The fault, and what its fetch comes to: the value or the error, and its least seconds.
EFFECTS: list[tuple[str, Any, float]] = [
    ("Delay side=request seconds=0.1", VALUE, 0.1),
    ("Delay side=reply seconds=0.1", VALUE, 0.1),
    ("Raise side=request error=ValueError text='no sale'", f"ValueError: {OWNER}\nValueError('no sale')", 0),
    ("Raise side=reply error=KeyError text='no sale'", f"KeyError: \"{OWNER}\\nKeyError('no sale')", 0),
    ("Duplicate", VALUE, 0),
    ("Corrupt side=reply change=zeros", [0.0, 0.0, 0.0], 0),
    ("Drop side=request", LATE, TIMEOUT),
    ("Drop side=reply", LATE, TIMEOUT),
]


def test_each_kind_hits_its_fetch_and_no_other(world: World, tmp_path: Path) -> None:
    plan = "; ".join(f"{fault} site={TO_HERE} role=a nth={nth}" for nth, (fault, _, _) in enumerate(EFFECTS, 2))
    lost = [nth for nth, (_, wanted, _) in enumerate(EFFECTS, 2) if wanted == LATE]
    first, *seen, last = played(world, tmp_path, plan, engine.fetches, "b", len(EFFECTS) + 2, TIMEOUT, lost)
    assert first.value == last.value == VALUE
    for (fault, wanted, seconds), answer in zip(EFFECTS, seen, strict=True):
        found = f"{answer.error}: {answer.text}"
        assert wanted in found if isinstance(wanted, str) else answer.value == wanted, (fault, answer)
        assert answer.seconds >= seconds * 0.98, (fault, answer)
    timeline = ledger.read(tmp_path)
    calls = [each for each in timeline.of("invoke") if each.details["site"] == TO_HERE]
    assert [(each.role, each.details["nth"], each.details["to"]) for each in calls] == [
        ("a", nth, "b") for nth in range(1, len(EFFECTS) + 3)
    ]
    assert [each.details.get("faults") for each in calls] == [None, *([n] for n in range(len(EFFECTS))), None]
    assert [each.details["fault"] for each in timeline.of("fired")] == [*range(len(EFFECTS))]
    effective = {each.details["fault"] for each in timeline.of("effective")}
    assert effective == {n for n, (fault, _, _) in enumerate(EFFECTS) if fault.startswith(("Delay", "Dup", "Corr"))}
    ended = [each for each in timeline.of("ok", "fail", "info") if each.details["site"] == TO_HERE][1:-1]
    for begun, end_, answer, (_, wanted, least) in zip(calls[1:-1], ended, seen, EFFECTS, strict=True):
        assert begun.details["timeout"] == (TIMEOUT if wanted == LATE else 10.0)  # not the role's 60 s
        assert least * 0.98 <= end_.details["seconds"] <= answer.seconds
        assert end_.time - begun.time >= least * 0.98
    ends = [each.event for each in timeline.of("ok", "fail", "info") if each.details["site"] == TO_HERE]
    assert ends == ["ok", "ok", "ok", "fail", "fail", "ok", "ok", "info", "info", "ok"]


@pytest.mark.parametrize("fault", ["Delay side=reply seconds=0.05", "Delay side=request seconds=0.05", "Duplicate"])
def test_a_fetch_that_is_hit_keeps_the_errors_type_and_text(world: World, tmp_path: Path, fault: str) -> None:
    """RPC's own calls make a `RuntimeError` of most errors; torch's fetch does not."""
    healthy = world.call("a", engine.fetch_errors, "b")
    assert [kind for kind, _ in healthy] == ["ValueError", "KeyError", "SoldOutError", "OSError"]
    assert played(world, tmp_path, f"{fault} site={TO_HERE} role=a every=true", engine.fetch_errors, "b") == healthy
    timeline = ledger.read(tmp_path)
    ended = [each for each in timeline.of("fail", "info") if each.details["site"] == TO_HERE]
    callees = [[link["types"][0] for link in each.details["links"] if link.get("way") == CALLEE] for each in ended]
    assert callees == [[kind] for kind, _ in healthy]
    assert len(timeline.of("fired")) == len(healthy)


def test_a_fetch_that_is_lost_while_an_earlier_answer_is_handled_is_indefinite(world: World, tmp_path: Path) -> None:
    """The error that the callee answered earlier is only its context."""
    plan = f"Drop site={TO_HERE} role=a nth=1 side=request"
    assert LATE in played(world, tmp_path, plan, engine.fetch_while_refused, "b", TIMEOUT).text
    ends = ledger.read(tmp_path).of("fail", "info")
    assert [each.event for each in ends if each.details["site"] == TO_HERE] == ["info"]


def test_only_a_fetch_that_sends_something_counts(world: World, tmp_path: Path) -> None:
    """Its owner's own fetch does not. A fault leaves a builtin's value and an error as they are."""
    plan = f"Duplicate site={TO_HERE} role=a every=true"
    assert played(world, tmp_path, plan, engine.fetch_in_other_ways, "b") == [7, [2.0, 2.0], [2.0, 2.0], "ValueError"]
    timeline = ledger.read(tmp_path)
    calls = [each for each in timeline.of("invoke") if each.details["site"] == TO_HERE]
    assert [each.details["timeout"] for each in calls] == [60.0, 5.0, 5.0]
    assert len(timeline.of("effective")) == 3


def test_a_fetch_after_the_shutdown_fails_as_without_a_record(tmp_path: Path) -> None:
    roles = {name: partial(engine.fetch_after_the_shutdown, tmp_path, to) for name, to in ("ab", "ba")}
    recorded = scope(Plan.parse("seed=0"), tmp_path / "run", record=True)
    with recorded as arguments, launch(roles, deadline=20, **arguments) as world:
        world.wait()
    assert "Cannot call to_here() on it after deletion" in (tmp_path / "from b").read_text()


@pytest.mark.parametrize(
    ("plan", "own"),
    [
        (f"Delay site={TO_HERE} side=request seconds=1", (False, True)),
        (f"Crash role=b at=call:{TO_HERE}#9@a", (False, True)),
        ("Delay site=torch:backward side=request seconds=1", (False, False)),
        ("Duplicate site=shop:pay", (False, True)),  # a fetch may run into its limit because of the fault
        ("seed=0", (False, False)),  # recorded without faults, as `list` does
    ],
)
def test_torchs_own_functions_are_replaced_and_that_for_gradients_only_where_the_plan_names_them(
    world: World, tmp_path: Path, plan: str, own: tuple[bool, bool]
) -> None:
    assert played(world, tmp_path, plan, engine.is_torchs_own) == own
    assert world.call("a", engine.is_torchs_own) == (True, True)


@pytest.mark.parametrize("fault", ["Delay side=reply seconds=0.05", "Duplicate", "Delay side=request seconds=0.05"])
def test_gradients_stay_the_same_bits(world: World, tmp_path: Path, fault: str) -> None:
    """The value that a faulty fetch brings is of the same graph."""
    healthy = world.call("a", engine.backwards, "b", 3)
    assert played(world, tmp_path, f"{fault} site={TO_HERE} role=a nth=2", engine.backwards, "b", 3) == healthy
    assert healthy[1] == ([3.0, 6.0, 9.0], [6.0, 6.0, 6.0])
    assert len(ledger.read(tmp_path).of("effective")) == 1


# Of three passes with x = 1, 2, 3 and y = 1, 2, 3: the gradient of x is 3y, and that of y is 3x.
HEALTHY = [([3.0, 6.0, 9.0], [3.0 * n] * 3) for n in (1, 2, 3)]


def hurt(world: World, folder: Path, plan: str) -> tuple[list[tuple[list[float], list[float]]], Timeline]:
    found = played(world, folder, plan, engine.backwards, "b", 3)
    return found, ledger.read(folder)


def test_every_gradient_is_counted_at_its_sender(world: World, tmp_path: Path) -> None:
    """Role a sends that of the product, and that of y; role b sends that of x."""
    found, timeline = hurt(world, tmp_path, f"Delay site={BACKWARD} role=b nth=9 side=request seconds=1")
    assert found == HEALTHY
    assert census(timeline)[BACKWARD].callers == {"a": 6, "b": 3}
    assert census(timeline)[BACKWARD].callees == ()


def test_a_function_whose_gradients_are_seen_may_have_parameters_of_any_name(world: World, tmp_path: Path) -> None:
    assert played(world, tmp_path, "seed=0", engine.scaled_there, "b") == [2.0, 4.0, 6.0]


def test_a_gradient_that_leaves_after_the_plans_end_is_not_hurt(world: World, tmp_path: Path) -> None:
    """Its hook stays on the graph, which was made under the plan."""
    plan = f"Corrupt site={BACKWARD} role=a nth=1 side=request change=zeros"
    world.call("a", shop.activate, str(prepared(Plan.parse(plan), tmp_path)), "a")
    assert world.call("a", engine.backwards, "b", 1, shop.deactivate) == HEALTHY[:1]


def test_a_gradient_of_an_earlier_plans_graph_is_none_of_the_next_plan(world: World, tmp_path: Path) -> None:
    first = prepared(Plan.parse(f"Delay site={BACKWARD} role=a nth=1 side=request seconds=1"), tmp_path / "first")
    second = prepared(Plan.parse("seed=0"), tmp_path / "second")
    world.call("a", shop.activate, str(first), "a")
    another = partial(shop.activate_another, str(second), "a")
    assert world.call("a", engine.backwards, "b", 1, another) == HEALTHY[:1]
    world.call("a", shop.deactivate)
    assert not ledger.read(second).of("gradient", "fired")


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
