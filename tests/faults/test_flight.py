"""A call that fails in flight: its caller fails when its callee executes. Measured on torch 2.13.0."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from faults.inject.call.flight import REMOTE, TORN, BegunCalls
from faults.ledger import read
from faults.plan import Plan, PlanError
from reference.world import World
from tests.support import roles_flight as flight
from tests.support import roles_shop as shop
from tests.support.active_plan import played

PLAN = f"Raise site={shop.HERE}function side=flight"


# One RPC thread a role, as an agent may have: the question and the call must not wait for each other.
pytestmark = pytest.mark.world("a", "b", "c", options={"num_worker_threads": 1})


def test_the_caller_fails_while_the_callee_executes(world: World, tmp_path: Path) -> None:
    """The function ends only after the caller has failed. If the caller waited for its end, it would fail 5 s later."""
    site = f"site={flight.__name__}:wait_for_failure"
    plan = f"Raise {site} side=flight; Delay {site} side=request seconds=0.01"
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    assert played(world, tmp_path, plan, flight.fail_while_it_executes, "b", pipe) == TORN
    timeline = read(tmp_path)
    assert [each.event for each in timeline.events if each.role == "b" and "nth" in each.details] == [
        *("fired", "effective", "executing", "fired", "executed", "effective")
    ]
    assert [each.role for each in timeline.of("info")] == ["a"]
    assert [each.details["site"].rpartition(":")[2] for each in timeline.of("ok", "fail")] == ["process_id"]
    assert world.call("b", shop.counts) == {"wait_for_failure": 1}


def test_the_error_stays_where_the_future_is_passed_on(world: World, tmp_path: Path) -> None:
    errors = played(world, tmp_path, f"{PLAN} every=true", flight.passed_on, "b", "c", roles="abc")
    assert [each.partition(": ")[0] for each in errors if TORN in each] == [
        *("collected", "waited for with others", "chained", "answered with")
    ]
    assert len(read(tmp_path).of("effective")) == 4


def test_a_remote_passes_unhurt_and_the_ledger_says_why(world: World, tmp_path: Path) -> None:
    """torch tells only the first RRef of a process that its creation has failed, so no fault can make it so."""
    assert played(world, tmp_path, PLAN, flight.refer, "b") == 6
    timeline = read(tmp_path)
    assert [each.details["why"] for each in timeline.of("failed")] == [REMOTE]
    assert timeline.of("fired", "executing") == []


def test_a_question_is_answered_when_the_call_begins() -> None:
    calls = BegunCalls()
    early = calls.of("early")
    calls.begin("late")
    assert not early.done()
    calls.begin("early")
    assert early.done()
    assert calls.of("late").done()
    assert not calls.of("late").done(), "an answered question is forgotten"


def test_the_caller_of_a_call_that_is_refused_before_it_begins_fails_at_once(world: World, tmp_path: Path) -> None:
    refused = PLAN.replace("flight", "request error=ValueError text='no sale'")
    assert "ValueError: no sale" in played(world, tmp_path, f"{PLAN}; {refused}", flight.call, "b")
    assert read(tmp_path).of("executing") == []


def test_an_error_in_flight_is_none_that_a_callee_has_raised(world: World, tmp_path: Path) -> None:
    """A later call that runs into its limit has the same text as one in flight whose question did."""
    site = f"site={shop.HERE}function"
    late = f"Delay {site} nth=1 side=request seconds=1"
    plan = f"{late}; {PLAN} nth=1; Drop {site} nth=2 side=reply"
    first, second = played(world, tmp_path, plan, flight.call_twice, "b", 0.3)
    assert "RPC ran for more than set timeout" in first
    assert first == second
    assert [each.event for each in read(tmp_path).of("fail", "info")] == ["info", "info"]


def test_an_error_of_ones_own_is_refused() -> None:
    said = r"^Raise: side='flight' raises RPC's own error of a broken connection, got error and text"
    with pytest.raises(PlanError, match=said):
        Plan.parse(f"{PLAN} error=ValueError text=gone")
    with pytest.raises(PlanError, match=r"^Drop: 'side' must be 'request' or 'reply', got 'flight'$"):
        Plan.parse(PLAN.replace("Raise", "Drop"))
