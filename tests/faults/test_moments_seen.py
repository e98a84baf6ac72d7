"""The moments of a run, by role and in the order start, steps, calls, shutdown."""

from __future__ import annotations

from faults.ledger import Event
from faults.ledger.moments_seen import moments_seen, roles_of, steps_of
from faults.plan.places import Moment
from tests.judge.by_hand import script

EVENTS = (
    Event("b", "up", 0.1),
    *(Event("b", "step", 0.2, {"number": number}) for number in (2, 1, 1, 0)),
    *(Event("a", "invoke", 0.2, {"site": "shop:pay", "nth": nth, "to": "b"}) for nth in (1, 2)),
    Event("b", "shutdown", 0.9),
)


def test_moments_that_differ_in_their_number_are_told_as_one() -> None:
    found = [str(each) for each in moments_seen(script("seed=0", *EVENTS).timeline)]
    assert found == [
        "up@a",
        "call:shop:pay#1@a, ... call:shop:pay#2@a",
        "up@b",
        "step:1@b, ... step:2@b",
        "shutdown@b",
    ]


def test_each_moment_can_be_written_in_a_plan() -> None:
    for each in moments_seen(script("seed=0", *EVENTS).timeline):
        assert (Moment.parse(str(each.first)), Moment.parse(str(each.last))) == (each.first, each.last)


def test_steps_are_counted_once_and_processes_without_rpc_are_no_roles() -> None:
    timeline = script("seed=0", *EVENTS).timeline
    assert (steps_of("b", timeline), steps_of("a", timeline)) == ([0, 1, 2], [])
    assert roles_of(timeline) == ["a", "b"]
