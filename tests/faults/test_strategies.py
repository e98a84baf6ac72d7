"""Strategies for plans: they draw only what can happen, all of it, and shrink to the smallest."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from faults.plan import Fault, Plan
from faults.plan.kinds import KINDS, NAMES, Kind
from faults.plan.possible_faults import program_of
from faults.strategies import GENTLE, SECONDS, faults, plans
from tests.support.suite_runs import ROOT

many = settings(max_examples=200)
searching = settings(max_examples=20_000, database=None, derandomize=True)

CALLS = {"shop:Till.pay": {"till1": 6, "till2": 3}, "shop:look": {"till2": 1}, "shop:unused": {"till1": 0}}
PAY = "shop:Till.pay"
ROLES = ["shop", "till1", "till2"]
STEPS = 2


def smallest(holds: Callable[[Plan], bool], **arguments: Any) -> str:
    return str(find(plans(CALLS, ROLES, steps=STEPS, **arguments), holds, settings=searching))


def has(kind: str, place: str, **values: Any) -> Callable[[Plan], bool]:
    wanted = values.items()
    return lambda plan: any(
        (fault.kind, fault.place) == (kind, place) and all(getattr(fault, name) == value for name, value in wanted)
        for fault in plan.faults
    )


def outside(fault: Fault) -> list[str]:
    """Name the parts of a fault that lie outside `CALLS`, `ROLES` and `STEPS`."""
    callers = CALLS.get(fault.site or "", {})
    named = fault.roles or ([fault.role] if fault.role else [each for each, count in callers.items() if count])
    moment = fault.moment
    counts = {} if moment is None else CALLS.get(moment.site, {})
    checks = {
        "site": fault.site is None or set(named) <= {each for each, count in callers.items() if count},
        "nth": fault.numbers is None or all(fault.numbers[-1] <= callers[each] for each in named),
        "role": fault.role in (None, *ROLES),
        "peer": fault.peer in (None, *ROLES),
        "at": moment is None or moment.role in ROLES,
        "step": moment is None or moment.event != "step" or moment.number <= STEPS,
        "call": moment is None or moment.event != "call" or moment.number <= counts.get(moment.role, 0),
        "seconds": fault.seconds in (None, *SECONDS),
    }
    return [name for name, holds in checks.items() if not holds]


@many
@given(plans(CALLS, ROLES, steps=STEPS, max_faults=5))
def test_plans_are_valid_and_stay_within_what_there_is(plan: Plan) -> None:
    assert Plan.from_json(plan.to_json()) == plan
    assert len(plan.faults) <= 5
    assert len(set(plan.faults)) == len(plan.faults)
    assert [outside(fault) for fault in plan.faults] == [[] for _ in plan.faults]
    assert plan.seed == 0 or any(fault.chance_percent for fault in plan.faults)
    # What is drawn only if it is asked for:
    assert not any(fault.traits.asked for fault in plan.faults)
    assert {fault.latency_ms for fault in plan.faults} <= {None}


@many
@given(st.data())
def test_only_wanted_kinds_and_places_are_drawn(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted({kind for kind, _ in GENTLE})), min_size=1))
    places = list({place for kind, place in GENTLE if kind in kinds})
    plan = data.draw(plans(CALLS, ROLES, kinds=kinds, places=places, min_faults=1))
    assert plan.faults
    assert {fault.kind for fault in plan.faults} <= set(kinds)


@many
@given(plans(["a:b", "a:c"], ROLES, places=["call"], calls=4, seconds=[3]))
def test_sites_without_counts_are_called_by_every_role(plan: Plan) -> None:
    for fault in plan.faults:
        assert fault.site in ("a:b", "a:c")
        assert fault.numbers is None or fault.numbers[-1] <= 4
        assert fault.seconds in (None, 3.0)


@pytest.mark.long
def test_a_line_may_have_a_rate_or_a_latency_or_both() -> None:
    program = {"kinds": ["Slow"], "latency": True}
    assert smallest(has("Slow", "network"), **program) == SMALLEST["Slow", "network"]
    late = "Slow role=shop seconds=0.1 kbit_per_second=100000 latency_ms=1.0"
    assert smallest(lambda plan: any(fault.latency_ms for fault in plan.faults), **program) == late
    every = smallest(lambda plan: any(fault.jitter_ms and fault.reorder_percent for fault in plan.faults), **program)
    assert every == f"{late} jitter_ms=0.1 reorder_percent=1.0"
    alone = smallest(lambda plan: any(fault.kbit_per_second is None for fault in plan.faults), **program)
    assert alone == "Slow role=shop seconds=0.1 latency_ms=1.0"


PROGRAM = program_of(CALLS, ROLES, SECONDS, STEPS, 3, False)


def smallest_of(kind: Kind) -> str:
    """Make the fault of the first of all choices: the first site, role and call, the shortest time."""
    values: dict[str, Any] = {"nth": 1} if kind.place == "call" else {}
    for name in kind.fields:
        if name == "roles":
            values[name] = tuple(CALLS[PAY])
        elif name not in ("to", "nth", "every", "chance_percent", "lives"):
            values[name] = kind.choices(name, PROGRAM, values)[0]
    return str(Fault(kind=kind.name, **values))


SMALLEST = {(kind.name, kind.place): smallest_of(kind) for kind in KINDS}


def test_some_smallest_faults_are_these() -> None:
    assert SMALLEST["Delay", "call"] == "Delay site=shop:Till.pay role=till1 nth=1 side=request seconds=0.1"
    assert SMALLEST["Order", "call"] == "Order site=shop:Till.pay roles=till1,till2 nth=1 seconds=0.1"
    assert SMALLEST["Drop", "message"] == "Drop message=RREF_FORK_REQUEST role=shop times=1"
    assert SMALLEST["Crash", "process"] == "Crash role=shop at=up@shop"
    assert SMALLEST["Partition", "network"] == "Partition role=shop peer=till1 direction=out seconds=0.1"
    assert SMALLEST["Slow", "network"] == "Slow role=shop seconds=0.1 kbit_per_second=100000"


@pytest.mark.long
@pytest.mark.parametrize("shape", GENTLE, ids="-".join)
def test_every_shape_occurs_and_shrinks_to_its_smallest_fault(shape: tuple[str, str]) -> None:
    """It stands alone, although up to three faults of all kinds are drawn."""
    assert smallest(has(*shape), kinds=NAMES) == SMALLEST[shape]


@pytest.mark.parametrize(
    ("shape", "values", "text"),
    [
        # The site is asked for, too, because the shrinker does not change a site and its caller at once.
        (("Drop", "call"), {"role": "till2", "site": PAY}, "Drop site=shop:Till.pay role=till2 nth=1 side=request"),
        (("Drop", "call"), {"nth": "2-3"}, "Drop site=shop:Till.pay role=till1 nth=2-3 side=request"),
        (("Drop", "call"), {"role": None}, "Drop site=shop:Till.pay nth=1 side=request"),
        (("Raise", "call"), {"error": "KeyError"}, f"{SMALLEST['Raise', 'call']} error=KeyError"),
        (("Crash", "process"), {"at": "step:2@shop"}, "Crash role=shop at=step:2@shop"),
        (("Reset", "network"), {"peer": None, "seconds": None}, "Reset role=shop"),
        (("Drop", "call"), {"chance_percent": 10.0}, SMALLEST["Drop", "call"].replace("nth=1", "chance_percent=10.0")),
    ],
)
@pytest.mark.long
def test_needed_fields_stay_and_the_rest_shrinks(shape: tuple[str, str], values: dict[str, Any], text: str) -> None:
    assert smallest(has(*shape, **values), kinds=[shape[0]]) == text


@pytest.mark.long
def test_fewer_faults_come_first() -> None:
    assert smallest(lambda plan: True) == "seed=0"
    assert smallest(lambda plan: bool(plan.faults)) == SMALLEST["Delay", "call"]
    two = smallest(lambda plan: {"Crash", "Pause"} <= {fault.kind for fault in plan.faults})
    assert sorted(two.split("; ")) == sorted([SMALLEST["Pause", "process"], SMALLEST["Crash", "call"]])


@pytest.mark.long
def test_seeds_are_drawn_for_chances() -> None:
    assert smallest(lambda plan: plan.seed > 999).startswith("seed=1000; ")


def test_every_order_of_callers_is_drawn() -> None:
    names = [f"r{number}" for number in range(4)]
    seen = set()

    @settings(max_examples=1000, database=None, derandomize=True, phases=[Phase.generate])
    @given(faults({"a:b": dict.fromkeys(names, 1)}, names, kinds=["Order"], seconds=[1]))
    def collect(fault: Fault) -> None:
        assert fault.roles is not None
        seen.add(fault.roles)

    collect()
    assert len(seen) == 12 + 24 + 24  # of two, three and four callers


def test_lost_messages_of_a_plan_fail_equally_often() -> None:
    def several(plan: Plan) -> bool:
        return [fault.times for fault in plan.at("message").values()] == [3, 3]

    assert smallest(several, kinds=["Drop"], places=["message"])


def test_huge_counts_cost_nothing() -> None:
    huge = faults({"a:b": {"a": 10**9}}, ["a"])
    assert find(huge, lambda fault: fault.numbers is not None and fault.numbers[0] > 10**6, settings=searching)
    roles = [f"r{number}" for number in range(60)]
    assert find(faults(["a:b"], roles, kinds=["Order"]), lambda fault: len(fault.roles or ()) > 2, settings=searching)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"kinds": ["Dealy"]}, "unknown kind 'Dealy', wanted some of Delay, "),
        ({"places": ["wire"]}, "unknown place 'wire', wanted some of call, message, process, network"),
        ({"sites": {"a:b": {"till1": 2}}, "kinds": ["Order"]}, "no Order is possible with these sites, roles "),
        ({"sites": [], "kinds": ["Delay", "Raise"]}, "no Raise is possible with these sites, roles and places"),
        ({"sites": [], "places": ["call"]}, "no fault is possible with these sites, roles and places"),
        ({"roles": [], "places": ["process"]}, "no fault is possible with these sites, roles and places"),
        ({"kinds": ["Crash"], "places": ["network"]}, "no Crash is possible with these sites, roles and places"),
        ({"kinds": "Crash"}, "'kinds' must be several words, got the text 'Crash'"),
        ({"places": "call"}, "'places' must be several words, got the text 'call'"),
        ({"kinds": []}, "no fault is possible with these sites, roles and places"),
        ({"min_faults": 3, "max_faults": 2}, "wanted 0 <= min_faults <= max_faults, got 3 and 2"),
        ({"seconds": []}, "'seconds' must be one or more durations, got none"),
        ({"sites": ["nowhere"]}, "'site' must be "),
        ({"sites": "a:b"}, "'sites' must be "),
        ({"roles": ["a b"]}, "'role' must be "),
        ({"roles": "shop"}, "'roles' must be "),
        ({"seconds": [0]}, "'seconds' must be "),
        ({"sites": {"a:b": {"shop": -1}}}, "'nth' must be "),
        ({"sites": ["a:b"], "calls": 1.5}, "'nth' must be "),
    ],
)
def test_impossible_arguments_are_refused_in_one_line(arguments: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError, match=rf"^[^\n]*{line}[^\n]*$"):
        plans(**{"sites": CALLS, "roles": ROLES, **arguments})


def test_without_roles_only_messages_are_possible() -> None:
    assert find(faults([], []), lambda fault: fault.role is None, settings=searching).place == "message"
    with pytest.raises(NoSuchExample):
        find(faults([], []), lambda fault: fault.place != "message", settings=searching)


def test_without_hypothesis_only_this_module_fails() -> None:
    program = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "import faults, faults.plan, faults.plan.text, faults.plan.places, faults.ledger, faults.inject.announcer\n"
        "try:\n    import faults.strategies\nexcept ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.stdout == "faults.strategies needs hypothesis: pip install hypothesis\n"
    assert done.stderr == ""
