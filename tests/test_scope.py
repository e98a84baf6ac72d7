"""A plan's folder, and what a world is given for it."""

from __future__ import annotations

from pathlib import Path

from faults import hook
from faults.plan import Plan
from faults.scope import prepared, scope

PLAN = Plan.parse("seed=3; Duplicate site=shop:pay")


def test_the_folder_holds_the_plan_and_nothing_of_an_earlier_run(tmp_path: Path) -> None:
    place = tmp_path / "new" / "run"
    prepared(Plan(), place)
    (place / "a.jsonl").write_text("{}\n")
    (place / "a.log").write_text("kept")
    assert prepared(PLAN, place) == place.resolve()
    assert sorted(each.name for each in place.iterdir()) == ["a.log", hook.PLAN]
    assert hook.read_plan(place) == PLAN


def test_arguments_of_launch(tmp_path: Path) -> None:
    with scope(PLAN, tmp_path, record=True) as arguments:
        assert list(arguments) == ["before"]
        before = arguments["before"]
        assert (before.func, before.args, before.keywords) == (hook.install, (tmp_path.resolve(),), {"record": True})
