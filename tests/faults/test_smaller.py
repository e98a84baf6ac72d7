"""The plans that are one step smaller than a plan, and their order."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faults.plan import Fault, Plan
from faults.plan.fields import words_of
from faults.plan.places import Moment
from faults.plan.smaller import smaller_plans
from faults.strategies import plans

quick = settings(deadline=None, max_examples=150, database=None, suppress_health_check=[HealthCheck.too_slow])

SITES = {"m:f": {"a": 3, "b": 2}, "m:g": {"a": 1}}
DRAWN = plans(SITES, ["a", "b", "ps"], steps=3, max_faults=3, min_faults=1)
HITS = {0: [("a", 1), ("a", 2), ("b", 1)], 1: [("b", 2)]}


def steps(text: str, **hits: list[tuple[str, int]]) -> list[str]:
    """Write the smaller plans. ``hits``: by ``fault0``, ``fault1`` and so on."""
    found = {int(name.removeprefix("fault")): calls for name, calls in hits.items()}
    return [str(each.plan) for each in smaller_plans(Plan.parse(text), found)]


def size(plan: Plan) -> tuple[int, ...]:
    """Measure a plan, by the order that docs/shrink.md states: faults, calls that are hit, fields, values, seed."""
    wide = sum(
        sum(name in fault.to_dict() for name in ("every", "chance_percent"))
        + (fault.place == "call" and not (fault.role or fault.roles))
        for fault in plan.faults
    )
    further = sum(
        name in fault.to_dict()
        for fault in plan.faults
        for name in ("how", "error", "text", *(["at"] if fault.place == "network" else []))
    )
    return len(plan.faults), wide + further, sum(map(weight, plan.faults)), plan.seed


def weight(fault: Fault) -> int:
    """Add up the values that have an order; times in tenths of a second; a slower connection weighs more."""
    moment = Moment.parse(fault.at).number if fault.at else 0
    words = sum(
        words_of(fault.kind, name).index(value)
        for name in ("side", "when", "change", "direction")
        if (value := getattr(fault, name)) is not None
    )
    numbers = (fault.nth or 0) + (fault.times or 0) + moment + words + len(fault.roles or ())
    shares = int(10 * (fault.seconds or 0) + 10 * (fault.percent or 0))
    return numbers + shares + (10**9 // fault.kbit_per_second if fault.kbit_per_second else 0)


@quick
@given(DRAWN, st.booleans())
def test_every_step_is_a_valid_plan_that_is_smaller(plan: Plan, alone_first: bool) -> None:
    for each in smaller_plans(plan, HITS, alone_first=alone_first):
        assert Plan.parse(str(each.plan)) == each.plan
        assert 1 <= len(each.kept) == len(each.plan.faults)
        assert list(each.kept) == sorted(set(each.kept))
        assert size(each.plan) < size(plan), str(each.plan)


@quick
@given(DRAWN)
def test_later_steps_have_larger_slots(plan: Plan) -> None:
    slots = [each.slot for each in smaller_plans(plan, HITS)]
    assert slots == sorted(slots)


def test_halves_come_before_single_faults() -> None:
    faults = [f"Duplicate site=m:f role=a nth={number}" for number in (1, 1, 1, 1)]
    named = [fault.replace("m:f", f"m:f{number}") for number, fault in enumerate(faults)]
    found = [each.kept for each in smaller_plans(Plan.parse("; ".join(named)), {})]
    assert found == [(2, 3), (0, 1), (1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)]
    alone = [each.kept for each in smaller_plans(Plan.parse("; ".join(named)), {}, alone_first=True)]
    assert alone == [(0,), (1,), (2,), (3,), *found]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Drop site=m:f role=a nth=1 side=request", []),
        (
            "Drop site=m:f role=a nth=8 side=reply",
            [
                *(f"Drop site=m:f role=a nth={number} side=reply" for number in (1, 4, 7)),
                "Drop site=m:f role=a nth=8 side=request",
            ],
        ),
        (
            "Raise site=m:f role=a nth=1 side=request error=KeyError text='no sale'",
            [
                "Raise site=m:f role=a nth=1 side=request text='no sale'",
                "Raise site=m:f role=a nth=1 side=request error=KeyError",
            ],
        ),
        (
            "Delay site=m:f role=a nth=1 side=request seconds=1.5",
            [f"Delay site=m:f role=a nth=1 side=request seconds={number}" for number in (0.1, 0.5, 1.0)],
        ),
        ("Crash role=ps at=step:3@a how=abort", ["Crash role=ps at=step:3@a", *(
            f"Crash role=ps at=step:{number}@a how=abort" for number in (1, 2)
        )]),
        ("Crash role=ps at=up@ps", []),
        (
            "Partition role=a peer=b at=up@a direction=both",
            [
                "Partition role=a peer=b direction=both",
                "Partition role=a peer=b at=up@a direction=out",
                "Partition role=a peer=b at=up@a direction=in",
            ],
        ),
        ("Slow role=a kbit_per_second=2000", [f"Slow role=a kbit_per_second={rate}" for rate in (100000, 10000)]),
        (
            "Order site=m:f roles=a,b,c nth=1 seconds=0.1",
            [f"Order site=m:f roles={roles} nth=1 seconds=0.1" for roles in ("a,b", "a,c", "b,c")],
        ),
        ("Delay message=PYTHON_CALL seconds=0.1", []),
        ("Drop message=PYTHON_CALL times=2", ["Drop message=PYTHON_CALL times=1"]),
    ],
)  # fmt: skip
def test_fields_are_left_out_and_values_are_lowered(text: str, wanted: list[str]) -> None:
    assert steps(text) == wanted


def test_a_fault_of_several_calls_becomes_a_fault_of_one_that_it_hit() -> None:
    calls = [("a", 2), ("b", 1)]
    exact = ["Duplicate site=m:f role=a nth=2", "Duplicate site=m:f role=b nth=1"]
    of_one_role = [f"Duplicate site=m:f role={role} every=true" for role in ("a", "b")]
    assert steps("Duplicate site=m:f every=true", fault0=calls) == [*exact, *of_one_role]
    assert steps("Duplicate site=m:f role=a chance_percent=50.0", fault0=calls[:1]) == exact[:1]
    assert steps("Duplicate site=m:f", fault0=[("a", 1), ("b", 1)])[-2:] == [
        "Duplicate site=m:f role=a nth=1",
        "Duplicate site=m:f role=b nth=1",
    ]


def test_of_many_calls_some_are_tried_evenly_spread() -> None:
    found = steps("Duplicate site=m:f role=a every=true", fault0=[("a", number) for number in range(1, 101)])
    assert found == [f"Duplicate site=m:f role=a nth={number}" for number in (1, 15, 29, 43, 57, 71, 85, 100)]


def test_a_seed_that_decides_nothing_is_left_out() -> None:
    chance, exact = "Duplicate site=m:f role=a chance_percent=50.0", "Drop site=m:g role=a nth=1 side=request"
    assert steps(f"seed=7; {chance}; {exact}") == [exact, f"seed=7; {chance}", f"{chance}; {exact}"]


def test_an_order_waits_as_long_as_before() -> None:
    """A shorter wait hurts no less, and fails more rarely."""
    plan = Plan.parse("Order site=m:f roles=a#1,b#1 seconds=5; Delay site=m:f role=a side=reply seconds=5")
    kept = [each.plan.faults for each in smaller_plans(plan, {}) if len(each.plan.faults) == 2]
    assert {faults[0].seconds for faults in kept} == {5.0}
    assert {faults[1].seconds for faults in kept} > {5.0}
