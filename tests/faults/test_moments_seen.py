"""The moments and sites of a run, from ledgers written by hand."""

from __future__ import annotations

from faults.ledger import Event, Timeline
from faults.ledger.moments_seen import census, moments_seen, roles_of, steps_of
from faults.plan.kinds import Called
from tests.judge.by_hand import script

EVENTS = (
    Event("b", "up", 0.1),
    *(Event("b", "step", 0.2, {"number": number}) for number in (8, 1, 1, 0)),
    *(Event("a", "invoke", 0.2, {"site": "shop:pay", "nth": nth, "to": "b"}) for nth in (1, 2)),
    *(Event("b", "written", 0.3, {"number": number}) for number in (2, 4)),
    *(Event("b", "valid", 0.4, {"number": number}) for number in (2, 4)),
    Event("b", "shutdown", 0.9),
)


def test_moments_that_differ_in_their_number_are_told_as_one() -> None:
    found = [str(each) for each in moments_seen(script("seed=0", *EVENTS).timeline)]
    assert found == [
        "up@a",
        "call:shop:pay#1@a, ... call:shop:pay#2@a",
        "up@b",
        "step:1@b, ... step:8@b",
        "written:2@b, ... written:4@b",
        "valid:2@b",
        "shutdown@b",
    ]


def test_steps_are_counted_once_and_processes_without_rpc_are_no_roles() -> None:
    timeline = script("seed=0", *EVENTS).timeline
    assert steps_of("b", timeline) == [0, 1, 8]
    assert steps_of("a", timeline) == []
    assert roles_of(timeline) == ["a", "b"]


def invoke(role: str, site: str, to: str, time: float, nth: int = 1) -> Event:
    return Event(role, "invoke", time, {"site": site, "nth": nth, "to": to, "via": "rpc"})


def timeline(*events: Event) -> Timeline:
    return Timeline(events, {}, ())


def test_calls_are_counted_by_site_and_caller() -> None:
    found = census(
        timeline(
            invoke("b", "m:later", "a", 1),
            invoke("b", "m:f", "d", 2),
            invoke("a", "m:f", "c", 3),
            invoke("b", "m:f", "c", 4, nth=2),
            Event("b", "ok", 5, {"site": "m:f"}),
            invoke("a", "torch.distributed.rpc.api:_x", "b", 6),
        )
    )
    assert found == {"m:later": Called({"b": 1}, ("a",)), "m:f": Called({"a": 1, "b": 2}, ("c", "d"))}
    assert found["m:f"].to == {"d": {"b": 1}, "c": {"a": 1, "b": 1}}
    assert list(found) == ["m:later", "m:f"]
    assert list(found["m:f"].callers) == ["a", "b"]


def test_a_role_with_two_lives_has_the_calls_of_the_longer_one() -> None:
    """Each life counts anew, so a plan cannot hit a higher number."""
    calls = [invoke("a", "m:f", "b", time, nth) for time, nth in enumerate((1, 2, 3, 1, 2))]
    found = census(timeline(*calls))["m:f"]
    assert found.callers == {"a": 3}
    assert found.to == {"b": {"a": 3}}


def test_torchs_own_calls_are_left_out_unless_wanted() -> None:
    own = timeline(invoke("a", "torch.distributed.rpc.api:_x", "b", 6), invoke("a", "torchrun:f", "b", 7))
    assert list(census(own)) == ["torchrun:f"]
    assert list(census(own, internal=True)) == ["torch.distributed.rpc.api:_x", "torchrun:f"]
