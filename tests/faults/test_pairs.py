"""Pairs of faults: which cells are combined, which are not and why, their order, and what they find."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterable
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from faults.cli.sweep_runs import in_part, run_cells, wanted
from faults.cli.sweep_tutorial_command import sweep_of
from faults.judge.rules import Judgement
from faults.ledger import Event, Timeline
from faults.ledger.moments_seen import Calls
from faults.ledger.record import Run
from faults.plan import Plan
from faults.run.pairs import FAILS, NOT_MADE, SAME_CALL, UNKNOWN, Pairs, combine
from faults.run.sweep import Call, Cell, Pair, Result, every_way
from tests.support import roles_subjects as plays
from tests.support.suite_runs import ROOT

SCHEMA = json.loads((ROOT / "docs/faults/report.schema.json").read_text())
F, G = "m:f", "m:g"
SITES = {F: Calls({"a": 2, "b": 1}, ("ps",)), G: Calls({"a": 1}, ("ps",))}
# The healthy run: a calls f twice, b calls f, then a calls g.
HEALTHY: dict[Call, str] = {("a", F, 1): "ok", ("a", F, 2): "ok", ("b", F, 1): "ok", ("a", G, 1): "ok"}
CELLS = [each for each in every_way(SITES, 3.0) if isinstance(each, Cell)]


def cell(site: str, injection: str, occurrence: str = "first") -> Cell:
    [found] = [each for each in CELLS if (each.site, each.injection, each.occurrence) == (site, injection, occurrence)]
    return found


def result(of: Cell, verdict: str = "equal", calls: dict[Call, str] | None = None) -> Result:
    return Result(of, Judgement((), verdict), "", 1.0, Path("r"), calls=HEALTHY if calls is None else calls)


def pairs(*results: Result, sites: str | None = None, kinds: list[str] | None = None) -> Pairs:
    options = Namespace(sites=sites, kinds=kinds)
    return combine(results, HEALTHY, SITES, lambda each: wanted(each, options))


def named(found: Iterable[Pair]) -> list[str]:
    return [
        f"{each.first.injection} {each.first.caller} + {each.second.injection} {each.second.caller}" for each in found
    ]


DROP, LATE = cell(F, "Drop reply"), cell(F, "Delay reply")
LAST, OTHER = cell(F, "Drop request", "last"), cell(G, "Raise request")


def test_what_the_program_survives_is_combined_each_two_once() -> None:
    survivors = [DROP, LAST, OTHER]
    found = pairs(*map(result, survivors))
    assert {frozenset(each.cells) for each in found.todo} == {frozenset(each) for each in combinations(survivors, 2)}
    assert len(found.todo) == 3
    assert found.left_out == {}


def test_every_two_cells_are_combined_or_left_out_for_a_reason() -> None:
    verdicts = ("equal", "unchecked", "failed loudly", "wrong", "hung", "not fired", "unknown", "recovered")
    results = [result(each, verdicts[number % len(verdicts)]) for number, each in enumerate(CELLS)]
    found = pairs(*results)
    assert len(found.todo) + sum(found.left_out.values()) == comb(len(CELLS), 2)
    assert len({frozenset(each.plan.faults) for each in found.todo}) == len(found.todo) > 20
    assert set(found.left_out) == {FAILS, UNKNOWN, SAME_CALL}
    hopeless = {each.cell for each in results if each.passed is not True}
    assert not [each for each in found.todo if hopeless.intersection(each.cells)]


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (result(DROP, "wrong"), result(OTHER), FAILS),
        (result(LATE, "needless failure"), result(OTHER), FAILS),
        (result(DROP, "not fired"), result(OTHER), UNKNOWN),
        (result(DROP, "unknown"), result(OTHER), UNKNOWN),
        (result(DROP), result(LATE), SAME_CALL),
        (result(DROP, "failed loudly", {("a", F, 1): "fail"}), result(OTHER), NOT_MADE),
        (result(DROP, calls={**HEALTHY, ("a", G, 1): "info"}), result(OTHER), NOT_MADE),
    ],
)
def test_two_cells_that_tell_nothing_together_are_left_out(first: Result, second: Result, reason: str) -> None:
    assert (pairs(first, second).todo, pairs(first, second).left_out) == ((), {reason: 1})


def test_a_fault_that_ends_the_program_after_one_that_it_survived_comes_last() -> None:
    """Under the second one, the first call is made; under the first one, the second call."""
    ends = result(OTHER, "failed loudly", {**HEALTHY, ("a", G, 1): "ok"})
    found = pairs(result(DROP), result(LAST), ends)
    assert named(found.todo) == [
        "Drop reply a#1 + Drop request b#1",
        "Drop reply a#1 + Raise request a#1",
        "Drop request b#1 + Raise request a#1",
    ]


def test_the_earlier_call_is_first_in_the_plan() -> None:
    [found] = pairs(result(OTHER), result(DROP)).todo
    assert found.plan == Plan((DROP.fault, OTHER.fault))


# a's call of f is lost, and a calls f again.
AGAIN: dict[Call, str] = {
    ("a", F, 1): "info",
    ("a", F, 2): "ok",
    ("a", F, 3): "ok",
    ("b", F, 1): "ok",
    ("a", G, 1): "ok",
}


def test_the_call_that_only_a_recovery_makes_is_hurt_first() -> None:
    found = pairs(result(DROP, calls=AGAIN), result(OTHER), kinds=["Drop", "Delay request", "Raise request"])
    assert named(found.todo) == [
        "Drop reply a#1 + Drop request a#2",
        "Drop reply a#1 + Drop reply a#2",
        "Drop reply a#1 + Raise request a#2",
        "Drop reply a#1 + Delay request a#2",
        "Drop reply a#1 + Raise request a#1",
    ]
    assert [each.second.occurrence for each in found.todo] == ["retry"] * 4 + ["first"]


@pytest.mark.parametrize(("end", "hurt"), [("ok", True), ("fail", True), ("info", False)])
def test_a_retry_that_is_answered_by_an_error_is_hurt_too(end: str, hurt: bool) -> None:
    """A callee may refuse a call that comes again."""
    found = pairs(result(DROP, calls={**AGAIN, ("a", F, 2): end}), kinds=["Drop reply"])
    assert named(found.todo) == (["Drop reply a#1 + Drop reply a#2"] if hurt else [])
    assert found.left_out == ({} if hurt else {NOT_MADE: 1})


def test_a_retry_is_not_hurt_in_a_way_that_fails_alone() -> None:
    failing = result(LAST, "wrong")
    found = pairs(result(DROP, calls=AGAIN), failing, kinds=["Drop"])
    assert named(found.todo) == ["Drop reply a#1 + Drop reply a#2"]
    assert found.left_out == {FAILS: 2}


def test_a_retry_of_a_site_that_was_not_chosen_is_not_hurt() -> None:
    found = pairs(result(DROP, calls=AGAIN), sites=G)
    assert found.todo == ()


def test_a_retry_elsewhere_is_found_too() -> None:
    """A client that asks another function, which the healthy run never called."""
    elsewhere: dict[Call, str] = {("a", F, 1): "info", ("a", "m:backup", 1): "ok", ("b", F, 1): "ok", ("a", G, 1): "ok"}
    found = pairs(result(DROP, calls=elsewhere), kinds=["Drop request"])
    assert [str(each.second.fault) for each in found.todo] == ["Drop site=m:backup role=a nth=1 side=request"]


def test_losing_kinds_come_before_those_that_lose_nothing_and_one_site_before_two() -> None:
    of_b, late_b = result(LAST), result(cell(F, "Delay reply", "last"))
    found = pairs(result(OTHER), late_b, result(DROP), of_b, kinds=["Drop"])
    assert named(found.todo) == [
        "Drop reply a#1 + Drop request b#1",
        "Drop reply a#1 + Delay reply b#1",
        "Drop reply a#1 + Raise request a#1",
        "Drop request b#1 + Raise request a#1",
        "Delay reply b#1 + Raise request a#1",
    ]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_pair_is_in_one_part_whichever_of_the_two_comes_first(count: int) -> None:
    todo = pairs(*map(result, CELLS)).todo
    parts = [in_part(todo, Namespace(part=(number, count))) for number in range(1, count + 1)]
    assert sorted(todo.index(each) for part in parts for each in part) == list(range(len(todo)))
    assert Pair(DROP, OTHER).name == Pair(OTHER, DROP).name


def test_a_budget_may_end_among_the_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run takes a second of the clock that the test sets, and answers every call, as the healthy run did."""
    now = [100.0]
    monkeypatch.setattr("faults.run.sweep.time.monotonic", lambda: now[0])
    events = [
        Event(caller, event, 0.0, {"site": site, "nth": nth, "to": "ps", "via": "rpc"})
        for caller, site, nth in HEALTHY
        for event in ("invoke", "ok")
    ]
    healthy = Run("shop", Plan(), Timeline(tuple(events), {}, ("a", "b")))

    def run_at(plan: Plan, place: Path) -> tuple[Run, Judgement]:
        now[0] += 1.0
        return healthy, Judgement((), "equal")

    for budget, faults in ((3.5, [1] * 4), (6.5, [1] * 4 + [2] * 3), (None, [1] * 4 + [2] * 4)):
        options = Namespace(**{**OPTIONS, "budget": budget, "sites": F, "kinds": ["Drop"]})
        results = run_cells(run_at, healthy, tmp_path, options, 3.0, [])
        assert [len(each.cell.cells) for each in results] == faults
        assert [each.folder.name for each in results] == [f"{number:04d}" for number in range(len(faults))]


# Real runs.

OPTIONS: dict[str, Any] = {
    **dict.fromkeys(["dir", "budget", "part", "json", "junit"]),
    "pairs": True,
    "expect_error": (),
}


def swept(
    place: Path, capsys: pytest.CaptureFixture[str], till: Any = plays.layered, **given: Any
) -> tuple[int, list[str], Any]:
    """Sweep a till: the one with two layers of retries. Return the status, what was printed, and the report."""
    options = {**OPTIONS, "sites": plays.ONCE, "kinds": ["Drop reply"], **given}
    report = place / "report.json"
    place.mkdir(exist_ok=True)
    status = sweep_of(plays.subject(till), Namespace(**{**options, "dir": str(place), "json": str(report)}))
    content = json.loads(report.read_text())
    jsonschema.validate(content, SCHEMA)
    return status, capsys.readouterr().out.splitlines(), content


@pytest.mark.long
def test_a_till_with_two_layers_of_retries_survives_every_single_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither in the first nor in the last call, of whatever kind."""
    status, said, _ = swept(tmp_path, capsys, kinds=None, pairs=False)
    assert (status, said[-1]) == (0, "10 equal, 10 failed loudly")


def test_cells_and_pairs_have_one_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said, report = swept(tmp_path, capsys, budget=1e-6)
    assert (status, len(report["runs"])) == (0, 1)
    assert said[-1] == f"{report['not_run']} of {report['not_run'] + 1} cells and pairs were not run"
    assert report["not_run"] >= 2


@pytest.mark.long
def test_every_part_runs_all_cells_and_its_own_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for number in (1, 2):
        late = {"sites": plays.PAY, "kinds": ["Delay"], "part": (number, 2)}
        status, said, report = swept(tmp_path / str(number), capsys, plays.careful, **late)
        assert (status, len([run for run in report["runs"] if "cell" in run])) == (0, 4)
        assert f"not combined: 2 pairs: {SAME_CALL}" in said
        assert report["not_combined"] == [{"pairs": 2, "reason": SAME_CALL}]
        found += [run["plan"] for run in report["runs"] if "pair" in run]
    assert len(found) == len(set(found)) == 4
