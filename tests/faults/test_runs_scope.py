"""The arguments of a plan's world."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.plan import Plan, PlanError
from faults.run.runs import Subject, check_roles, run, scope
from faults.testing.active_plan import merge_launch_arguments
from reference.roles import Roles
from reference.world.start import check_deadline
from reference.world.supervisor import GRACE
from tests.support.roles_plain import name


@pytest.mark.parametrize(
    "text",
    [
        "Drop site=shop:pay role=c nth=1 side=reply",
        "Drop site=shop:pay to=c nth=1 side=reply",
        "Order site=shop:pay roles=a,c nth=1 seconds=1.0",
        "Crash role=a at=up@c",
        "Partition role=a peer=c direction=out",
    ],
)
def test_a_name_that_is_no_role_is_refused(text: str) -> None:
    with pytest.raises(PlanError) as refused:
        check_roles(Plan.parse(text), ["a", "b"])
    assert str(refused.value) == f"{text}: no role c; wanted some of a, b"
    check_roles(Plan.parse(text), ["a", "b", "c"])


@pytest.mark.parametrize("text", ["Partition role=a peer=b direction=out", "Drop message=PYTHON_CALL role=a times=1"])
def test_a_fault_that_takes_the_channels_for_cuda_is_refused_with_device_maps(text: str, tmp_path: Path) -> None:
    """Before a role starts: it would fail by an error of torch, or wait for one that is refused."""
    roles = Roles({"a": name, "b": name}, {"device_maps": {}}, {"b": {"device_maps": {"a": {"cuda:0": "cuda:0"}}}})
    with pytest.raises(PlanError) as refused:
        check_roles(Plan.parse(text), roles)
    with pytest.raises(PlanError, match="b has device maps"), scope(Plan.parse(text), tmp_path, roles):
        pytest.fail("the scope began")
    assert str(refused.value) == f"{text}: b has device maps, wanted roles without"
    with pytest.raises(PlanError, match=r": b has device maps, "):
        run(Subject("mapped", roles, 3.0), Plan.parse(text), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    check_roles(Plan.parse("Crash role=a at=up@b"), roles)
    check_roles(Plan.parse(text), Roles({"a": name, "b": name}, {"device_maps": {}}))


def test_a_world_without_a_role_of_the_plan_is_refused_and_leaves_the_folder(tmp_path: Path) -> None:
    plan, place = Plan.parse("Crash role=c at=up@a"), tmp_path / "run"
    with pytest.raises(PlanError, match=r": no role c; wanted some of a, b$"), scope(plan, place, ["a", "b"]):
        raise AssertionError
    assert not place.exists()


def test_a_grace_of_days_can_be_launched(tmp_path: Path) -> None:
    with scope(Plan.parse("Pause role=a at=up@a seconds=1000000"), tmp_path) as arguments:
        check_deadline(arguments["grace"])


@pytest.mark.parametrize(("own", "found"), [(5, GRACE + 25), (50, 50)])
def test_roles_that_the_plan_stops_are_waited_for(own: float, found: float, tmp_path: Path) -> None:
    """The launcher waits as long as the pauses last before it takes roles for stuck, or as long as a test says."""
    with scope(Plan.parse("Pause role=a at=up@a seconds=25"), tmp_path) as arguments:
        assert merge_launch_arguments({"grace": own}, arguments)["grace"] == found


def test_a_test_that_gives_a_before_has_it_before_the_plans() -> None:
    called: list[str] = []
    own, plan = ({"before": lambda role, by=by: called.append(f"{by} {role}")} for by in ("test", "plan"))
    merge_launch_arguments(own, plan)["before"]("a")
    assert called == ["test a", "plan a"]
    assert merge_launch_arguments(own, {}) == own
    assert merge_launch_arguments({}, plan) == plan


def test_a_test_that_gives_options_has_the_plans_too() -> None:
    own, plan = {"options": {"rpc_timeout": 7}}, {"options": {"num_worker_threads": 3}}
    assert merge_launch_arguments(own, plan)["options"] == {"rpc_timeout": 7, "num_worker_threads": 3}
