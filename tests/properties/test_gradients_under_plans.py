"""The bits are the same under any plan of delays and reorderings as without one. Idle worlds run plan after plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from faults.ledger.moments_seen import census
from faults.plan import Fault, Plan
from faults.strategies import plans
from reference.trace import Case
from reference.verify import quick
from reference.world import World
from tests.properties import bugs
from tests.properties.properties import assert_equal, counterexample, examples, idle_world, judged, on, run_under

pytestmark = pytest.mark.long

_EXACT: Mapping[str, Any] = {"arithmetic": "exact", "dtype": "float64", "lr": 0.125, "steps": 2, "timeout": 20.0}
_IMAGES: Mapping[str, Any] = {"image_w": 4, "image_h": 4, "num_classes": 3, "batch_size": 2, "timeout": 20.0}

# The case of each tutorial. Its seed, the fields in `_ALSO` and the plan are drawn.
CASES: Mapping[str, Case] = {
    "parameter_server": quick("parameter_server", **{**_EXACT, "workers": 3}),
    # Natural, in float32 with batch norm: here an order that leaks into the sums shows in the bits.
    "batch_parameter_server": quick("batch_parameter_server", **_IMAGES, trainers=3),
    "sharded_parameter_server": quick("sharded_parameter_server", **_IMAGES, trainers=3),
    "pipeline": quick("pipeline", **{**_EXACT, "num_split": 3, "image_w": 2, "image_h": 2, "num_classes": 3}),
    "dist_autograd": quick("dist_autograd", **_EXACT),
    "hybrid_ddp": quick("hybrid_ddp", **{**_EXACT, "trainers": 2, "rows": 4, "dim": 2, "hidden": 2, "batch_size": 2}),
}
_ALSO: Mapping[str, Mapping[str, Any]] = {
    "parameter_server": {"staleness": st.sampled_from((0, 1))},
    "batch_parameter_server": {"accumulation": st.sampled_from(("rank", "arrival"))},
    "hybrid_ddp": {"accumulation": st.sampled_from(("rank", "allreduce"))},
}
# All callers' nth call of a site must go to one role, otherwise the calls of an `Order` do not meet. Of the sites with
# several callees only this one is so: a proxy's `rpc_async` sends when the type is known, so its first role is chance.
_IN_TURN = "reference.sharded_parameter_server:ParameterServerShard.push_and_fetch"
# Long enough to change an order, short enough for hundreds.
SECONDS = (0.001, 0.003, 0.01)


def cases_of(name: str) -> st.SearchStrategy[Case]:
    """Draw the fields that do not change which calls the roles make."""
    return st.builds(partial(replace, CASES[name]), seed=st.integers(0, 2**16), **_ALSO.get(name, {}))


def feasible(plan: Plan, orderly: Collection[str]) -> Plan:
    """Replace each `Order` at a site that is not orderly by a `Delay` of its first role."""
    found = []
    for fault in plan.faults:
        if fault.kind == "Order" and fault.site not in orderly:
            when = {"nth": fault.nth} if fault.nth else {"every": True}
            first = (fault.roles or ())[0]
            fault = Fault(kind="Delay", site=fault.site, role=first, side="request", seconds=SECONDS[-1], **when)
        found.append(fault)
    return patient(Plan(tuple(dict.fromkeys(found)), plan.seed))


def patient(plan: Plan) -> Plan:
    """Keep one `Order` per site, because two could contradict each other, and let it wait for 20 s.

    A call whose turn never comes would be an error, not a reordering. Orders of different sites cannot contradict each
    other, because all roles call the sites in one sequence.
    """
    kept: dict[object, Fault] = {}
    for number, fault in enumerate(plan.faults):
        order = fault.kind == "Order"
        kept.setdefault(fault.site if order else number, replace(fault, seconds=20.0) if order else fault)
    return Plan(tuple(kept.values()), plan.seed)


def plans_for(
    sites: Mapping[str, Mapping[str, int]], roles: list[str], orderly: Collection[str]
) -> st.SearchStrategy[Plan]:
    several = any(len(callers) > 1 for callers in sites.values())
    kinds = ["Delay", "Order"] if several else ["Delay"]
    return plans(sites, roles, kinds=kinds, places=["call"], seconds=SECONDS, min_faults=1).map(
        lambda plan: feasible(plan, orderly)
    )


class Program:
    """An idle world of one tutorial, and the plans that its recorded calls allow."""

    def __init__(self, name: str, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        _, timeline = run_under(world, CASES[name], Plan(), folder)
        found = census(timeline)
        self.sites = {site: calls.callers for site, calls in found.items()}
        orderly = {site for site, calls in found.items() if len(calls.callees) == 1} | {_IN_TURN}
        self.targets = st.tuples(cases_of(name), plans_for(self.sites, list(timeline.roles), orderly))

    def judged(self, case: Case, plan: Plan) -> tuple[str, str]:
        """Run a case under a plan. Every fault without a ``chance_percent`` must fire."""
        trace, timeline = run_under(self.world, case, plan, self.folder)
        fired = {event.details["fault"] for event in timeline.of("fired")}
        certain = {number for number, fault in enumerate(plan.faults) if fault.chance_percent is None}
        assert certain <= fired, f"{plan}: not fired"
        return judged(trace)


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with idle_world(request.param) as idle:
        yield Program(request.param, idle, tmp_path_factory.mktemp("ledgers"))


def keeps_its_bits(name: str, count: int) -> Callable[..., None]:
    """Return the property, with ``count`` examples, that no plan changes a tutorial's bits."""

    def test(world: Program, data: st.DataObject) -> None:
        case, plan = data.draw(world.targets)
        verdict, difference = world.judged(case, plan)
        assert verdict == "equal", f"{plan}: {difference}"

    test.__name__ = test.__qualname__ = f"test_{name}_keeps_its_bits_under_plans"
    made: Callable[..., None] = on(name)(examples(count, data=st.data())(test))
    return made


test_parameter_server_keeps_its_bits_under_plans = keeps_its_bits("parameter_server", 70)
test_batch_parameter_server_keeps_its_bits_under_plans = keeps_its_bits("batch_parameter_server", 70)
test_sharded_parameter_server_keeps_its_bits_under_plans = keeps_its_bits("sharded_parameter_server", 50)
test_pipeline_keeps_its_bits_under_plans = keeps_its_bits("pipeline", 50)
test_dist_autograd_keeps_its_bits_under_plans = keeps_its_bits("dist_autograd", 50)
test_hybrid_ddp_keeps_its_bits_under_plans = keeps_its_bits("hybrid_ddp", 40)


@on("batch_parameter_server")
def test_a_healthy_run_makes_the_calls_that_the_plans_hit(world: Program) -> None:
    """Every `nth` call of a plan is one that the run makes."""
    server = "reference.batch_parameter_server:BatchUpdateParameterServer.update_and_fetch_model"
    assert world.sites[server] == {"trainer1": 2, "trainer2": 2, "trainer3": 2}
    assert_equal(world.world, CASES["batch_parameter_server"])


def test_no_plan_contradicts_itself() -> None:
    order = "Order site=a:b roles={} nth=1 seconds={}"
    given = ["Delay site=a:b nth=1 side=reply seconds=0.1", order.format("x,y", 0.1), order.format("y,x", 0.1)]
    kept = [given[0], order.format("x,y", 20.0)]
    assert patient(Plan.parse("; ".join(given))) == Plan.parse("; ".join(kept))


@pytest.mark.parametrize(("name", "bug"), bugs.REORDERED, ids=lambda value: getattr(value, "__name__", value))
def test_planted_bugs_are_found(name: str, bug: Any, tmp_path: Path) -> None:
    """A run in the usual order need not show these bugs."""
    with idle_world(name, before=bug) as idle:
        program = Program(name, idle, tmp_path)
        counterexample(program.targets, lambda target: program.judged(*target)[0] != "equal", count=60)
