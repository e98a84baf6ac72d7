"""Who waits for whom where a run hangs, from its open calls and shutdowns."""

from __future__ import annotations

from typing import Any

from faults.judge.facts import Facts
from faults.judge.waiting import Wait, circles, told_waits
from faults.ledger import Event
from faults.ledger.record import COMMAND, End, Run
from tests.judge.by_hand import CRASH, PAY, crashed, event, script, started

OVERDUE = {COMMAND: End("Overdue", "was overdue after 30 s", 130.0)}


def hanging(*events: Event, plan: str = "seed=0", running: tuple[int, ...] = (1, 2), **known: Any) -> Run:
    return script(plan, *events, cut="ab", ends=OVERDUE, seconds=32.0, running=running, **known)


def asks(role: str, to: str, time: float = 2.0, **call: object) -> Event:
    return event(role, "invoke", time, **{**PAY, **call}, to=to)


def told(run: Run) -> list[str]:
    return list(told_waits(Facts(run)))


def test_a_role_waits_for_the_callee_of_its_open_call() -> None:
    assert told(hanging(asks("a", "b"))) == ["a waits for b (pay#1, 28.0 s)", "b has no open call"]


def test_a_call_that_has_ended_is_no_wait() -> None:
    for how in ("ok", "fail", "info"):
        assert told(hanging(asks("a", "b"), event("a", how, 3.0, **PAY)))[0] == "a has no open call"


def test_calls_to_one_callee_are_one_wait_since_the_first() -> None:
    calls = [asks("a", "b", 2.0 + number, nth=number) for number in range(1, 6)]
    assert told(hanging(*calls))[0] == "a waits for b (pay#1, pay#2, pay#3 and 2 more, 27.0 s)"


def test_torchs_own_calls_are_no_waits() -> None:
    own = asks("a", "b", site="torch.distributed.rpc.api:_gather_to_leader")
    assert told(hanging(own))[0] == "a has no open call"


def test_roles_that_wait_for_each_other_are_a_circle() -> None:
    found = told(hanging(asks("a", "b"), asks("b", "a", 3.0)))
    assert found[2:] == ["nobody moves: a waits for b waits for a"]


def test_a_circle_is_found_once_behind_roles_that_are_not_in_it() -> None:
    def wait(caller: str, callee: str) -> Wait:
        return Wait(caller, callee, ["f#1"], 1.0)

    waits = [wait("x", "a"), wait("a", "b"), wait("b", "c"), wait("c", "a"), wait("c", "d")]
    assert circles(waits) == [["a", "b", "c", "a"]]
    assert circles([wait("a", "a")]) == [["a", "a"]]
    assert circles(waits[:3]) == []


def test_in_a_common_shutdown_roles_wait_for_those_that_have_not_come_to_it() -> None:
    shuts = event("a", "shutdown", 10.0, graceful=True)
    run = hanging(shuts, crashed(), plan=CRASH, running=(1,))
    assert told(run) == ["a waits for b (common shutdown, 20.0 s), which was killed by the plan, by SIGKILL"]
    came = hanging(shuts, event("b", "shutdown", 1.0, graceful=True), crashed(), plan=CRASH, running=(1,))
    assert told(came) == told(run)  # and died in it
    assert told(hanging(event("a", "shutdown", 10.0, graceful=False)))[0] == "a has no open call"
    assert told(hanging(shuts, event("a", "left", 11.0)))[0] == "a has no open call"


def test_a_wait_for_a_call_is_told_apart_from_one_in_the_common_shutdown() -> None:
    shuts = event("c", "shutdown", 10.0, graceful=True)
    found = told(hanging(asks("a", "b"), *started("c"), shuts, running=(1, 2, 3)))
    assert found[0] == "a waits for b (pay#1, 28.0 s)"
    assert "c waits for b (common shutdown, 20.0 s)" in found


def test_who_has_ended_does_not_wait() -> None:
    assert told(script("seed=0", asks("a", "b"))) == []
