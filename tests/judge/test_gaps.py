"""What is missing in a run's record, torn, or changed: then the run is unknown, and the file is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from faults.judge.facts import Facts
from faults.judge.gaps import ELSEWHERE, NO_RPC, gaps
from faults.judge.rules import judge
from faults.ledger import Event
from faults.ledger.record import COMMAND, Run
from faults.plan import Plan
from tests.judge.by_hand import CRASH, DROP, RETURNED, command, crashed, event, fired, script, started, verdict, world


def found(run: Run) -> list[str]:
    return gaps(Facts(run))


def test_a_whole_record_has_no_gap() -> None:
    assert found(world(DROP, fired())) == found(script(DROP, fired())) == []


@pytest.mark.parametrize("make", [world, script])
def test_a_run_without_a_start_of_rpc_is_unknown(make: Callable[..., Run]) -> None:
    """The program may not use RPC, or the plan did not reach it."""
    run = make(DROP)
    run = replace(run, timeline=replace(run.timeline, events=tuple(run.timeline.of("start", "shutdown", "exit"))))
    assert found(run) == [NO_RPC]
    assert verdict(run) == "unknown"
    assert found(replace(run, plan=Plan())) == []  # nothing planned, nothing recorded
    assert found(replace(run, plan=Plan(), recorded=True)) == [NO_RPC]


def test_what_the_folder_lacks_is_named_and_nothing_is_told_by_the_rest() -> None:
    run = script(CRASH, crashed(), cut="b", gaps=["b.jsonl has 3 events, wanted 4"])
    judgement = judge(run)
    assert judgement.verdict == "unknown"
    assert judgement.complaints[0].text == run.gaps[0]
    assert judgement.notes == ()


def test_who_is_killed_may_leave_half_a_line() -> None:
    for torn, wanted in (({"b": 1}, []), ({"b": 2}, ["b: torn lines: 2"]), ({"a": 1}, ["a: torn lines: 1"])):
        run = script(CRASH, crashed(), cut="b")
        assert found(replace(run, timeline=replace(run.timeline, torn=torn))) == wanted


def test_every_role_of_the_world_has_a_ledger() -> None:
    missing = world(DROP, fired(), ends={"c": RETURNED})
    assert found(missing) == ["c: no ledger"]
    assert found(replace(missing, plan=Plan())) == []
    assert found(replace(missing, plan=Plan(), recorded=True)) == ["c: no ledger"]
    peers = event("a", "up", 0.5, workers=["a", "b", "c"])
    assert found(world("seed=0", peers)) == ["c: no ledger"]
    assert found(script("seed=0", peers)) == [f"c: no ledger{ELSEWHERE}"]


def test_a_role_of_a_world_that_returned_has_shut_down() -> None:
    run = world(DROP, fired())
    short = replace(run.timeline, events=tuple(each for each in run.timeline.events if each.event != "shutdown"))
    assert found(replace(run, timeline=short)) == [
        f"{role}: it returned, and its ledger ends before its shutdown" for role in "ab"
    ]
    assert found(replace(run, timeline=short, ends={COMMAND: command()})) == []


@pytest.mark.parametrize(
    ("again", "complete", "several"),
    [
        (started("a", 13.0, 11), True, True),  # a later run wrote into the folder
        (started("a", 4.0, 11), True, False),  # the program did
        (started("a", 4.0, 11), False, False),
    ],
)
def test_one_ledger_of_several_runs_is_named(again: list[Event], complete: bool, several: bool) -> None:
    wanted = ["a: one ledger of 2 runs"] if several else []
    assert found(script("seed=0", *again, complete=complete)) == wanted
