"""The bound on ends after a fault: by the program's own timeouts."""

from __future__ import annotations

from faults.bounds import bound_of_timeout, lasting, timeout_of
from faults.ledger import Event, Timeline
from faults.plan import Plan


def timeout(*events: Event) -> float:
    return timeout_of(Timeline(events, {}, ("a", "b")))


def up(role: str, seconds: float) -> Event:
    return Event(role, "up", 1.0, {"rpc_timeout": seconds})


def invoke(seconds: float, **details: object) -> Event:
    return Event("a", "invoke", 2.0, {"timeout": seconds, **details})


def test_the_longest_timeout_that_a_hurt_call_may_take() -> None:
    assert timeout(up("a", 2.0), up("b", 60.0), invoke(5.0, faults=[0])) == 60.0
    assert timeout(up("a", 2.0), invoke(90.0, faults=[0])) == 90.0
    assert timeout(up("a", 2.0), invoke(90.0)) == 2.0  # which nothing has hurt
    assert timeout(up("a", 60.0), invoke(0.0, faults=[0])) == 60.0  # without a limit
    assert timeout(up("a", 1.0), Event("a", "shutdown", 3.0, {"graceful": True, "timeout": 5.0})) == 5.0
    assert timeout() == 0.0


def test_the_bound_is_twice_that_and_some_seconds_besides_what_the_faults_last() -> None:
    assert bound_of_timeout(60.0) == 130.0
    assert (
        lasting(
            Plan.parse("Pause role=a at=up@a seconds=2; Delay site=s:f side=reply seconds=0.5; Crash role=a at=up@a")
        )
        == 2.5
    )
