"""The folder of a plan, and the arguments of its world."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults import hook
from faults.ledger import Ledger
from faults.ledger.record import PLAN as PLAN_FILE
from faults.ledger.record import read_plan
from faults.ledger.run_files import MARK
from faults.plan import Plan, PlanError
from faults.run.runs import check_roles, prepared, scope
from faults.testing.active_plan import merge_launch_arguments
from reference.world.start import check_deadline
from reference.world.supervisor import GRACE

PLAN = Plan.parse("seed=3; Duplicate site=shop:pay")


def test_the_folder_holds_the_plan_and_nothing_of_an_earlier_run(tmp_path: Path) -> None:
    place = tmp_path / "new" / "run"
    prepared(Plan(), place)
    Ledger(place, "a").close()
    (place / "a.log").write_text("of the role that has the ledger")
    (place / "a.stacks").touch()
    (place / "b.log").write_text("kept")
    assert prepared(PLAN, place) == place.resolve()
    assert sorted(each.name for each in place.iterdir()) == [MARK, "b.log", PLAN_FILE]
    assert read_plan(place) == PLAN


def test_scope_yields_arguments_of_launch(tmp_path: Path) -> None:
    with scope(PLAN, tmp_path, record=True) as arguments:
        assert list(arguments) == ["before"]
        before = arguments["before"]
        assert before.func == hook.install
        assert before.args == (tmp_path.resolve(),)
        assert before.keywords == {"record": True}


@pytest.mark.parametrize(
    "text",
    [
        "Drop site=shop:pay role=c nth=1 side=reply",
        "Drop site=shop:pay to=c nth=1 side=reply",
        "Order site=shop:pay roles=a,c nth=1 seconds=1.0",
        "Crash role=a at=up@c",
        "Drop message=PYTHON_CALL role=c times=1",
        "Partition role=c at=up@a direction=both",
    ],
)
def test_a_name_that_is_no_role_is_refused(text: str) -> None:
    with pytest.raises(PlanError) as refused:
        check_roles(Plan.parse(text), ["a", "b"])
    assert str(refused.value) == f"{text}: no role c; wanted some of a, b"
    check_roles(Plan.parse(text), ["a", "b", "c"])


def test_roles_that_the_plan_stops_are_waited_for(tmp_path: Path) -> None:
    """The launcher waits as long as the pauses last before it takes roles for stuck."""
    with scope(Plan.parse("Pause role=a at=up@a seconds=25"), tmp_path) as arguments:
        assert arguments["grace"] == GRACE + 25


def test_a_grace_of_days_can_be_launched(tmp_path: Path) -> None:
    with scope(Plan.parse("Pause role=a at=up@a seconds=1000000"), tmp_path) as arguments:
        check_deadline(arguments["grace"])


@pytest.mark.parametrize(("own", "found"), [(5, GRACE + 25), (50, 50)])
def test_a_test_that_gives_a_grace_waits_for_the_plans_pauses_too(own: float, found: float, tmp_path: Path) -> None:
    with scope(Plan.parse("Pause role=a at=up@a seconds=25"), tmp_path) as arguments:
        assert merge_launch_arguments({"grace": own}, arguments)["grace"] == found
