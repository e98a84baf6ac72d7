"""Why a fault did not fire: the site or the moment that may have been meant is named, and nothing else."""

from __future__ import annotations

import pytest

from faults.judge.hints import Reasons, nearest
from faults.ledger import Event
from tests.judge.by_hand import script

CALLS = [
    *(Event("a", "invoke", 0.2, {"site": "__main__:Agent.select_action", "nth": nth, "to": "b"}) for nth in (1, 2)),
    Event("b", "invoke", 0.3, {"site": "shop:pay", "nth": 1, "to": "a"}),
    Event("b", "invoke", 0.4, {"site": "torch.distributed.rpc.api:_gather_to_leader", "nth": 1, "to": "a"}),
]
STEPS = [Event("a", "step", 0.5, {"number": number}) for number in (1, 2, 3)]
MOMENTS_OF_A = "moments of a: up@a, call:__main__:Agent.select_action#1@a, ... call:__main__:Agent.select_action#2@a"


def reason(plan: str, *events: Event) -> str:
    found = script(plan, *events)
    return Reasons(found).of(0, found.plan.faults[0])


@pytest.mark.parametrize(
    ("site", "told"),
    [
        ("shop:pay", "1 by b"),
        ("agent:Agent.select_action", "none; did you mean __main__:Agent.select_action, called twice by a?"),
        ("agent:select_action", "none; did you mean __main__:Agent.select_action, called twice by a?"),
        ("__main__:Agent.selectaction", "none; did you mean __main__:Agent.select_action, called twice by a?"),
        ("torch:to_her", "none; did you mean torch:to_here?"),
        ("torch.distributed.autograd:backward", "none; did you mean torch:backward?"),
        ("torch:add", "none; called were __main__:Agent.select_action, shop:pay"),
        ("shop:to_her", "none; called were __main__:Agent.select_action, shop:pay"),
        ("bank:lend", "none; called were __main__:Agent.select_action, shop:pay"),
    ],
)
def test_the_site_that_was_meant_is_named(site: str, told: str) -> None:
    assert reason(f"Drop site={site} role=a nth=9 side=reply", *CALLS) == f" (recorded calls of this site: {told})"


@pytest.mark.parametrize(("to", "told"), [("b", "2 by a"), ("c", "none; its calls went to b")])
def test_only_the_calls_to_the_callee_are_told(to: str, told: str) -> None:
    found = reason(f"Drop site=__main__:Agent.select_action role=a to={to} nth=9 side=reply", *CALLS)
    assert found == f" (recorded calls of this site to {to}: {told})"


def test_calls_that_torch_makes_itself_are_not_listed() -> None:
    found = reason("Drop site=shop:pay role=a nth=9 side=reply", CALLS[-1])
    assert found == " (recorded calls of this site: none)"


@pytest.mark.parametrize(
    ("at", "told"),
    [
        ("up@c", "no role c was seen, only a, b"),
        ("step:9@a", f"a announced steps 1 to 3; {MOMENTS_OF_A.replace('call', 'step:1@a, ... step:3@a, call', 1)}"),
        ("step:1@b", "b announced no step, but a did; moments of b: up@b, call:shop:pay#1@b)"),
        ("shutdown@a", "it did not come; moments of a: up@a, step:1@a"),
        ("call:__main__:Agent.select_action#7@a", "calls of __main__:Agent.select_action: 2 by a; moments of a: "),
        ("call:select_action:act#1@a", "calls of select_action:act: none; called were __main__:Agent"),
    ],
)
def test_the_moments_that_came_are_named(at: str, told: str) -> None:
    assert reason(f"Crash role=a at={at}", *CALLS, *STEPS).startswith(f" ({told}")


def test_a_program_without_steps_is_told_as_that() -> None:
    found = reason("Crash role=a at=step:1@a", *CALLS)
    assert found == (
        f" (this program announces no step: none of its log records has extra={{'step': N}}; {MOMENTS_OF_A})"
    )


def test_a_recorded_failure_comes_first() -> None:
    failed = Event("a", "failed", 0.5, {"fault": 0, "kind": "Crash", "why": "no such process"})
    assert reason("Crash role=a at=up@c", failed) == " (no such process)"


def test_a_misspelt_victim_is_named_before_the_failure_that_it_causes() -> None:
    failed = Event("a", "failed", 0.5, {"fault": 0, "kind": "Crash", "why": "B has no process here"})
    assert reason("Crash role=B at=up@a", failed, *CALLS) == " (no role B was seen, only a, b)"


def test_a_name_that_nothing_resembles_has_no_nearest() -> None:
    assert nearest("bank:lend", ["shop:pay", "shop:Till.sell"]) is None
    assert nearest("bank:pay", ["shop:Till.pay", "shop:pay"]) == "shop:pay"
