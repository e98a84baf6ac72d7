"""Pairs of faults: which cells are combined, in which order, and what they find."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from faults.cli.sweep_command import in_part, run_cells
from faults.judge.rules import Judgement
from faults.ledger import Event, Timeline
from faults.ledger.record import Run
from faults.plan import Plan
from faults.plan.kinds import Called
from faults.run.sweep import Call, Cell, Cells, Result, every_way, pairs_of, plan_of, variants
from tests.support.targets import options, read_report

F, G = "m:f", "m:g"
SITES = {F: Called({"a": 3, "b": 1}, ("ps",)), G: Called({"a": 1}, ("ps",))}
# The healthy run: a calls f three times, b calls f, then a calls g.
HEALTHY: tuple[Call, ...] = (("a", F, 1), ("a", F, 2), ("a", F, 3), ("b", F, 1), ("a", G, 1))
AGAIN: tuple[Call, ...] = (*HEALTHY, ("b", F, 2))  # b has called f again
CELLS = [each for each in every_way(SITES, 3.0, variants(None)) if isinstance(each, Cell)]


def cell(site: str, injection: str, occurrence: str = "first") -> Cell:
    [found] = [each for each in CELLS if (each.site, each.injection, each.occurrence) == (site, injection, occurrence)]
    return found


def result(of: Cell, verdict: str = "equal", calls: Iterable[Call] = HEALTHY) -> Result:
    made = {(caller, site): nth for caller, site, nth in sorted(calls)}
    return Result((of,), Judgement((), verdict), Path("r"), calls=made)


def named(found: Iterable[Cells]) -> list[str]:
    return [" + ".join(f"{cell.injection} {cell.caller}" for cell in each) for each in found]


DROP, LATE = cell(F, "Drop reply"), cell(F, "Delay reply")
LAST, OTHER = cell(F, "Drop request", "last"), cell(G, "Raise request")
NEXT = "Drop reply a#1 + Drop reply a#2"


def test_what_the_program_survives_is_combined_first_with_the_next_call_and_then_with_each_other() -> None:
    assert named(pairs_of([result(DROP), result(LAST), result(OTHER)])) == [
        NEXT,
        "Drop reply a#1 + Drop request b#1",
        "Drop reply a#1 + Raise request a#1",
        "Drop request b#1 + Raise request a#1",
    ]


def test_a_retry_is_the_next_call() -> None:
    """Which the run under the fault has made, and the healthy run has not."""
    [(first, second)] = pairs_of([result(LAST, calls=AGAIN)])
    assert second == Cell(F, "Drop request", "next", replace(LAST.fault, nth=2))
    assert plan_of((first, second)) == Plan((LAST.fault, second.fault))
    assert named(pairs_of([result(LAST)])) == []


def test_a_fault_that_was_tried_alone_is_not_repeated_as_the_next_one() -> None:
    """Nor does the pair come twice, whether the program has survived that or not."""
    then = Cell(F, "Drop reply", "last", replace(DROP.fault, nth=2))
    assert named(pairs_of([result(DROP), result(then)])) == ["Drop reply a#2 + Drop reply a#3", NEXT]
    assert named(pairs_of([result(DROP), result(then, "wrong")])) == []


@pytest.mark.parametrize("verdict", ["failed loudly", "wrong", "hung", "needless failure", "not fired", "unknown"])
def test_what_the_program_does_not_survive_is_not_combined(verdict: str) -> None:
    assert named(pairs_of([result(DROP, verdict, AGAIN), result(LAST), result(OTHER)])) == [
        "Drop request b#1 + Raise request a#1"
    ]


def test_two_faults_hit_two_calls() -> None:
    assert named(pairs_of([result(DROP), result(LATE)])) == [NEXT, "Delay reply a#1 + Delay reply a#2"]


@pytest.mark.parametrize("lost", [DROP, OTHER], ids=["of the first", "of the second"])
def test_both_calls_are_made_under_the_other_fault(lost: Cell) -> None:
    """Otherwise the other fault would not fire."""
    without = {each: {hit[:2] for hit in other.hit} for each, other in ((DROP, OTHER), (OTHER, DROP))}
    fewer = {each: [call for call in HEALTHY if call[:2] not in without[each]] for each in without}
    found = pairs_of([result(each, calls=fewer[each] if each is lost else HEALTHY) for each in (DROP, OTHER)])
    assert named(found) == [NEXT]


def test_each_two_cells_are_combined_once() -> None:
    found = list(pairs_of(list(map(result, CELLS))))
    cells = [frozenset(each) for each in found]
    assert set(cells) >= {frozenset(two) for two in combinations(CELLS, 2) if two[0].hit.isdisjoint(two[1].hit)}
    assert len({frozenset(plan_of(each).faults) for each in found}) == len(found) > 20


def test_a_pair_is_in_the_same_part_whichever_of_the_two_comes_first() -> None:
    every = [Namespace(part=(number, 100)) for number in range(1, 101)]
    assert [len(in_part([(DROP, OTHER)], part)) for part in every] == [
        len(in_part([(OTHER, DROP)], part)) for part in every
    ]


EVENTS = [
    Event(caller, event, 0.0, {"site": site, "nth": nth, "to": "ps", "via": "rpc"})
    for caller, site, nth in HEALTHY
    for event in ("invoke", "ok")
]
# It makes the calls of the healthy run, under any plan.
MADE = Run("shop", Plan(), Timeline(tuple(EVENTS), {}, ("a", "b"))), Judgement((), "equal")


def test_a_budget_may_end_among_the_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each run takes a second of the clock that the test sets."""
    now = [100.0]
    monkeypatch.setattr("faults.run.sweep.time.monotonic", lambda: now[0])

    def run_at(plan: Plan, place: Path) -> tuple[Run, Judgement]:
        now[0] += 1.0
        return MADE

    for budget, faults in ((3.5, [1] * 4), (6.5, [1] * 4 + [2] * 3), (None, [1] * 4 + [2] * 6)):
        asked = options(budget=budget, sites=F, kinds=["Drop"], pairs=True)
        results = run_cells(run_at, MADE[0], tmp_path, asked, 3.0, []).results
        assert [len(each.cells) for each in results] == faults
        assert [each.folder.name for each in results] == [f"{number:04d}" for number in range(len(faults))]
    assert capsys.readouterr().err == "shop: 5 of 6 runs, about 1 s left\n"  # of the pairs; the cells took 4 s


def test_every_part_runs_all_cells_and_its_own_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, path = [], tmp_path / "report.json"
    for number in (1, 2):
        asked = options(sites=F, kinds=["Delay"], part=(number, 2), pairs=True, json=str(path))
        run_cells(lambda plan, place: MADE, MADE[0], tmp_path, asked, 3.0, [])
        runs = read_report(path)["runs"]
        assert len([run for run in runs if "cell" in run]) == 4
        assert capsys.readouterr().out.splitlines()[-2] == "alone: 4 equal"
        found += [run["plan"] for run in runs if "pair" in run]
    assert len(found) == len(set(found)) == 6
