"""The nemesis: plans that are judged again without what could not fire, and shrunk."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from faults.judge.rules import judge
from faults.plan import Plan
from tests import nemesis
from tests.judge.by_hand import CRASH, crashed, raised, script, started
from tests.nemesis import DRAWN, Target, hunt, judged, may_come, shrunk
from tests.support import roles_subjects as plays

# A till waits for a second, of which the import of torch must use up nothing.
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("forkserver")]

PAY = f"site={plays.PAY} role=till"


def target(play: Any, folder: Path) -> Target:
    """A program with a judge of its own, which has to be right or to fail loudly, as a tutorial."""
    return Target("shop", partial(nemesis.run_once, plays.subject(play), deadline=30.0), folder, foreign=False)


@pytest.mark.parametrize(
    "dropped", [f"Raise {PAY} nth=3 side=request", "Drop message=RREF_USER_DELETE role=till times=1"]
)
def test_what_cannot_fire_or_shows_in_no_call_is_dropped(dropped: str, tmp_path: Path) -> None:
    kept = Plan.parse(f"Raise {PAY} nth=2 side=request")
    found = judged(target(plays.careful, tmp_path), Plan.parse(f"{kept}; {dropped}"), tmp_path / "run")
    assert found is not None
    assert found.plan == kept
    assert found.judgement.verdict == "failed loudly"
    assert found.wrong == ""


def test_a_plan_of_which_nothing_fires_shows_nothing(tmp_path: Path) -> None:
    plan = Plan.parse(f"Raise {PAY} nth=9 side=request")
    assert judged(target(plays.careful, tmp_path), plan, tmp_path / "run") is None


def test_a_silent_error_is_found_and_shrunk(tmp_path: Path) -> None:
    loss, late = f"Raise {PAY} nth=1 side=request", f"Delay {PAY} nth=2 side=request seconds=0.05"
    found = judged(target(plays.careless, tmp_path), Plan.parse(f"{late}; {loss}"), tmp_path / "run")
    assert found is not None
    assert found.wrong == "wrong, wanted equal, failed loudly of Delay, Raise"
    assert shrunk(found, tmp_path / "shrunk", seconds=60) == Plan.parse(loss)


@pytest.mark.parametrize(
    ("foreign", "plan", "verdict", "may"),
    [
        (False, "Drop message=CLEANUP_AUTOGRAD_CONTEXT_REQ role=a times=1", "leaked", True),  # sent again after 1 s
        (False, "Drop message=PYTHON_CALL role=a times=1", "leaked", False),
        (False, "Delay message=CLEANUP_AUTOGRAD_CONTEXT_REQ role=a seconds=1", "leaked", False),
        (True, f"Duplicate {PAY} nth=1; Order site={plays.PAY} roles=a,b seconds=1", "needless failure", True),
        (True, f"Order site={plays.PAY} roles=a,b seconds=1", "needless failure", False),
        (True, f"Duplicate {PAY} nth=1; Drop {PAY} nth=2 side=reply", "needless failure", False),
    ],
)
def test_what_may_come_depends_on_the_faults(foreign: bool, plan: str, verdict: str, may: bool) -> None:
    assert (verdict in may_come(Plan.parse(plan).faults, foreign=foreign)) is may


@pytest.mark.parametrize(("restarts", "wrong"), [(1, ""), (2, "failed loudly, wanted equal, recovered of Crash")])
def test_a_program_may_fail_if_it_was_ended_more_often_than_it_may_be_started(
    restarts: int, wrong: str, tmp_path: Path
) -> None:
    ends = [crashed(), crashed(number=1, time=5.5, pid=12), raised("a", "Lost", time=6.0)]
    run = script(f"{CRASH}; {CRASH} lives=2", *ends, *started("b", 4.0, 12), status=1, cut="b")
    judgement = judge(run)
    assert judgement.verdict == "failed loudly", str(judgement)
    hurt = replace(target(plays.careful, tmp_path), restarts=restarts)
    assert nemesis._mistake(hurt, run, judgement) == wrong


def test_the_seed_decides_the_plans(tmp_path: Path) -> None:
    shop = target(plays.careful, tmp_path)
    drawn = [list(islice(shop.plans(seed), 50)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) == 50
    assert {len(plan.faults) for plan in drawn[0]} == {1, 2, 3, 4}
    assert {fault.kind for plan in drawn[0] for fault in plan.faults} == set(DRAWN) - {"Order"}, "there is one till"


def test_a_hunt_ends_in_time_and_tells_each_run(tmp_path: Path) -> None:
    """A careless till is wrong as soon as a request is lost."""
    wrong = next(each for each in hunt([target(plays.careless, tmp_path)], seed=1, seconds=60) if each.wrong)
    assert wrong.wrong.startswith("wrong, wanted equal")
    assert list(hunt([target(plays.careful, tmp_path / "late")], seed=1, seconds=0)) == []
