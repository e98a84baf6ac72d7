"""How soon a program that fails has to end after a fault: by its own timeouts, and by what the faults last."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faults.judge.bound import allowed, lasting, turn_of
from faults.ledger import Event
from faults.plan import Plan
from tests.judge.by_hand import DELAY, DROP, PAY, event, script, world


def up(seconds: float) -> Event:
    return event("a", "up", 0.2, rpc_timeout=seconds)


def call(name: str, time: float, seconds: float = 90.0, process: int = 1, **details: object) -> Event:
    return event("a", name, time, **PAY, timeout=seconds, process=process, **details)


def timeout(*events: Event, first_seen: float | None = None) -> float:
    """Return a script's own timeout, by the seconds that it is allowed."""
    return (allowed(script("seed=0", *events, bound=None), first_seen)[0] - 10.0) / 2


@pytest.mark.parametrize(
    ("events", "longest"),
    [
        ([], 0.0),
        ([up(2.0), event("b", "up", 0.2, rpc_timeout=60.0)], 60.0),
        ([up(1.0), event("a", "shutdown", 3.0, graceful=True, timeout=5.0)], 5.0),
        ([up(2.0), call("invoke", 1.0, faults=[0])], 90.0),
        ([up(2.0), call("invoke", 1.0)], 2.0),  # no fault hit it
        ([up(2.0), call("invoke", 1.0, 0.0, faults=[0])], 2.0),  # without a limit
        ([event("a", "up", 0.2)], 0.0),  # a line that tells none
    ],
)
def test_a_scripts_timeout_is_the_longest_of_its_start_its_shutdown_and_calls_with_a_fault(
    events: list[Event], longest: float
) -> None:
    assert timeout(*events) == longest


@pytest.mark.parametrize(
    ("calls", "longest"),
    [
        ([call("invoke", 4.0), call("fail", 7.0)], 90.0),  # open at the fault, and failed by it
        ([call("invoke", 4.0), call("ok", 7.0)], 90.0),  # it waited, and got an answer
        ([call("invoke", 6.0), call("info", 7.0)], 90.0),
        ([call("invoke", 6.0)], 90.0),  # its end was not recorded
        ([call("invoke", 6.0), *(replace(call(*of), life=2) for of in (("invoke", 8.0), ("ok", 9.0)))], 90.0),
        ([call("invoke", 4.0), call("invoke", 6.0, process=2), call("ok", 7.0, process=2)], 90.0),
        ([call("invoke", 6.0), call("ok", 7.0)], 2.0),
        ([call("invoke", 3.0), call("fail", 4.0)], 2.0),
        ([call("invoke", 4.0, 0.0), call("fail", 7.0)], 2.0),
    ],
)
def test_a_call_that_the_first_fault_meets_or_that_fails_since_counts_too(calls: list[Event], longest: float) -> None:
    assert timeout(up(2.0), *calls, first_seen=5.0) == longest


def test_the_bound_is_twice_that_and_some_seconds_besides_what_the_faults_last() -> None:
    seconds, computed = allowed(script(DELAY, up(60.0), bound=None), 2.0)
    assert seconds == 130.5
    assert computed == "twice the program's own timeout of 60 s, and 10 s"
    assert allowed(world(DROP, up(60.0), bound=None, timeout=3.0), 2.0)[0] == 16.0  # a tutorial's is its case's
    assert allowed(script(DELAY, up(60.0), bound=7.0), 2.0) == (7.5, "the bound that was given")


@pytest.mark.parametrize(
    ("plan", "seconds"),
    [
        ("Pause role=a at=up@a seconds=2; Delay site=s:f side=reply seconds=0.5; Crash role=a at=up@a", 2.5),
        ("Slow role=a latency_ms=1500 at=up@a", 2 * 1.5),
        ("Slow role=b latency_ms=500 jitter_ms=250 seconds=3 at=up@b", 3 + 2 * 0.75),
        ("Slow role=a latency_ms=1000", 20.0),  # two roles start 13.7 s later by it
        ("Slow role=a kbit_per_second=8 seconds=3", 3.0),
    ],
)
def test_a_fault_lasts_its_seconds_and_the_late_packets_that_are_waited_for(plan: str, seconds: float) -> None:
    assert lasting(Plan.parse(plan)) == seconds


@pytest.mark.parametrize(("events", "turn"), [([], 10.0), ([up(8.0)], 4.0), ([up(60.0)], 10.0)])
def test_a_call_waits_for_its_turn_half_the_timeout(events: list[Event], turn: float) -> None:
    assert turn_of(script("seed=0", *events).timeline) == turn
