"""The bound on ends after a fault: by the program's own timeouts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faults.ledger import Event, Timeline
from faults.ledger.record import End, Run
from faults.plan import Plan
from faults.verdict.checks import judge
from faults.verdict.script_outcomes import of_lives
from faults.verdict.time_bounds import _held, bound_of_timeout, lasting, slowest, timeout_of


def timeout(*events: Event) -> float:
    return timeout_of(Timeline(events, {}, ("a", "b")))


def up(role: str, seconds: float) -> Event:
    return Event(role, "up", 1.0, {"rpc_timeout": seconds})


def invoke(seconds: float, **details: object) -> Event:
    return Event("a", "invoke", 2.0, {"timeout": seconds, **details})


def test_the_timeout_is_the_longest_that_a_call_with_a_fault_may_take() -> None:
    assert timeout(up("a", 2.0), up("b", 60.0), invoke(5.0, faults=[0])) == 60.0
    assert timeout(up("a", 2.0), invoke(90.0, faults=[0])) == 90.0
    assert timeout(up("a", 2.0), invoke(90.0)) == 2.0  # a call that no fault hit
    assert timeout(up("a", 60.0), invoke(0.0, faults=[0])) == 60.0  # without a limit
    assert timeout(up("a", 1.0), Event("a", "shutdown", 3.0, {"graceful": True, "timeout": 5.0})) == 5.0
    assert timeout() == 0.0


def call(event: str, time: float, nth: int = 1, seconds: float = 90.0, process: int = 1) -> Event:
    return Event("a", event, time, {"site": "shop:pay", "nth": nth, "timeout": seconds}, process)


@pytest.mark.parametrize(
    ("calls", "longest"),
    [
        ([call("invoke", 4.0), call("fail", 7.0)], 90.0),  # open at the fault, and failed by it
        ([call("invoke", 4.0), call("ok", 7.0)], 90.0),  # it waited, and got an answer
        ([call("invoke", 6.0), call("info", 7.0)], 90.0),
        ([call("invoke", 6.0)], 90.0),  # its end was not recorded
        ([call("invoke", 6.0), call("invoke", 8.0), call("ok", 9.0)], 90.0),  # nor was the first one's
        ([call("invoke", 4.0), call("invoke", 6.0, process=2), call("ok", 7.0, process=2)], 90.0),
        ([call("invoke", 6.0), call("ok", 7.0)], 2.0),
        ([call("invoke", 3.0), call("fail", 4.0)], 2.0),
        ([call("invoke", 4.0, seconds=0.0), call("fail", 7.0)], 2.0),
    ],
)
def test_a_call_that_the_first_fault_meets_or_that_fails_since_counts_too(calls: list[Event], longest: float) -> None:
    """This includes the call of a survivor that no fault has hit."""
    assert timeout_of(Timeline((up("a", 2.0), *calls), {}, ("a",)), 5.0) == longest


def test_the_bound_is_twice_that_and_some_seconds_besides_what_the_faults_last() -> None:
    assert bound_of_timeout(60.0) == 130.0
    assert (
        lasting(
            Plan.parse("Pause role=a at=up@a seconds=2; Delay site=s:f side=reply seconds=0.5; Crash role=a at=up@a")
        )
        == 2.5
    )


def test_a_latency_is_added_to_the_bound_once_for_each_timeout() -> None:
    plan = Plan.parse("Slow role=a latency_ms=1500 at=up@a; Slow role=b latency_ms=500 jitter_ms=250 seconds=3 at=up@b")
    assert lasting(plan) == 3 + 2 * (1.5 + 0.5 + 0.25)


def test_a_latency_from_the_start_is_added_for_each_packet_of_the_start() -> None:
    """Two roles start 13.7 s later if one of them has a latency of 1 s."""
    assert lasting(Plan.parse("Slow role=a latency_ms=1000")) > 13.7


def role(name: str, pid: int, begin: float, end: float, *between: Event, how: str = "exit") -> list[Event]:
    """Make a life that ended by the event ``how``."""
    details = {"bases": ["RuntimeError"], "error": "eof", "status": 0}
    inner = [replace(event, role=name, process=pid) for event in between]
    first = Event(name, "start", begin, {"pid": pid, "world": begin}, pid)
    return [first, Event(name, "up", begin + 1, {}, pid), *inner, Event(name, how, end, details, pid)]


def script(*events: list[Event], command: float, kind: str = "Returned") -> Run:
    """Make a run of a till that drops its first call of a shop."""
    every = sorted((event for each in events for event in each), key=lambda event: event.time)
    timeline = Timeline(tuple(every), {}, tuple(dict.fromkeys(event.role for event in every)))
    lives = of_lives(timeline)
    ends = {name: next((end for end in each if not end.returned), each[-1]) for name, each in lives.items()}
    ends["+command"] = End(kind, kind, command)
    plan = Plan.parse("Drop site=shop:pay role=till nth=1 side=reply")
    return Run("shop", plan, timeline, ends, bound=5.0, lives=lives)


def fired(time: float) -> Event:
    return Event("shop", "fired", time, {"fault": 0, "caller": "till", "site": "shop:pay", "nth": 1})


class TestRecovery:
    """A program that starts anew, or goes on without the lost role, has no bound."""

    LOST = (*role("shop", 1, 0.0, 5.0, fired(2.0)), *role("till", 2, 0.0, 6.0, how="raised"))

    def test_a_second_world_is_not_held_to_the_bound(self) -> None:
        again = [*role("shop", 3, 8.0, 90.0), *role("till", 4, 8.0, 90.0)]
        assert slowest(script(list(self.LOST), again, command=91.0)) == ("till", 4.0)
        assert slowest(script(list(self.LOST), again, command=99.0, kind="Exited")) == ("+command", 9.0)

    def test_a_role_that_goes_on_and_returns_is_not_held_to_the_bound(self) -> None:
        clerk = role("clerk", 3, 0.0, 90.0)
        found = script(list(self.LOST), clerk, command=200.0)
        assert slowest(found) == ("till", 4.0)
        assert next(each for each in judge(found).checks if each.name == "bound").holds is True

    def test_a_role_that_fails_late_is_held_to_the_bound(self) -> None:
        late = role("till", 2, 0.0, 9.0, how="raised")
        found = script([*role("shop", 1, 0.0, 90.0, fired(2.0)), *late], command=91.0)
        assert slowest(found) == ("till", 7.0)
        assert judge(found).verdict == "hung"

    def test_a_world_with_a_later_fault_is_counted_from_that_fault(self) -> None:
        again = [*role("shop", 3, 50.0, 60.0, fired(55.0)), *role("till", 4, 50.0, 58.0, how="raised")]
        assert slowest(script(list(self.LOST), again, command=61.0)) == ("till", 4.0)
        assert slowest(script(list(self.LOST), again, command=70.0, kind="Exited")) == ("+command", 10.0)

    def test_a_command_that_waits_in_vain_is_held_to_the_bound(self) -> None:
        """No role has ended by itself since the fault: the program has ended them."""
        found = script([*role("till", 2, 0.0, 6.0, fired(2.0), how="raised")], command=90.0)
        assert slowest(found) == ("+command", 84.0)
        assert judge(found).verdict == "hung"

    def test_a_command_is_counted_from_the_end_of_the_last_role_that_failed(self) -> None:
        """That role had the whole bound, too. A role that the command itself has ended does not count."""
        failed = role("till", 2, 0.0, 6.0, fired(2.0), how="raised")
        found = script(failed, command=10.0, kind="Exited")
        assert slowest(found) == ("till", 4.0)
        assert judge(found).verdict != "hung"
        late = replace(script(failed, command=12.0, kind="Exited"), limit="twice 0 s")
        text = next(each for each in judge(late).checks if each.name == "bound").text
        assert text.startswith("+command was the last to end, 6.0 s after the last role or the first fault, wanted at")
        assert text.endswith("most 5.0: twice 0 s; --bound sets another bound")
        ended = End("Ended", "was ended by its own program", 9.0)
        found = script(failed, role("shop", 1, 0.0, 9.0), command=12.0, kind="Exited")
        lives = {**found.lives, "shop": [ended]}
        assert dict(_held(replace(found, lives=lives), [fired(2.0)], 2.0))["+command"] == 6.0
