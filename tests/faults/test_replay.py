"""A run becomes a plan that repeats it: its faults at exactly their calls, in the recorded order of executions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.ledger import Event, Timeline
from faults.ledger.record import End, Run
from faults.plan import Plan
from faults.run import runs
from faults.run.replay import MOST, replay_of
from faults.run.same_run import compare, difference, facts
from tests.support import roles_subjects as plays

SITE = "shop:pay"
PAY = f"site={plays.PAY} role=till"


def ran(*events: Event | list[Event], plan: str = "seed=0", order: bool = True) -> Run:
    """Return a run with these events. ``order``: it has recorded the order of its calls."""
    every = [event for each in events for event in (each if isinstance(each, list) else [each])]
    if order:
        every.append(Event("shop", "ordering", 0))
    ordered = tuple(sorted(every, key=lambda event: event.time))
    return Run("shop.py", Plan.parse(plan), Timeline(ordered, {}, tuple(dict.fromkeys(e.role for e in ordered))))


def executed(call: str, begun: float, ended: float, role: str = "shop", site: str = SITE) -> list[Event]:
    caller, nth = call.split("#")
    details = {"caller": caller, "nth": int(nth), "site": site}
    return [Event(role, "executing", begun, details), Event(role, "executed", ended, details)]


def fired(number: int, kind: str, caller: str, nth: int, event: str = "fired", **details: Any) -> Event:
    return Event("shop", event, nth, {"fault": number, "kind": kind, "caller": caller, "nth": nth, **details})


def planned(run: Run) -> list[str]:
    return [str(fault) for fault in replay_of(run, 2).plan.faults]


def test_calls_keep_the_order_in_which_they_executed() -> None:
    run = ran(*executed("b#1", 1, 2), *executed("a#1", 3, 4), *executed("a#2", 5, 6), *executed("b#2", 7, 8))
    assert planned(run) == [f"Order site={SITE} roles='b#1,a#1,a#2,b#2' seconds=2.0"]
    assert replay_of(run, 2).notes == []


def test_each_site_and_role_has_its_own_order() -> None:
    """A site that one role alone calls needs none."""
    calls = [
        *(("a#1", "shop", SITE), ("b#1", "shop", SITE)),
        *(("b#1", "bank", "bank:ask"), ("a#1", "bank", "bank:ask")),
        *(("b#2", "stall", SITE), ("a#2", "stall", SITE)),
    ]
    alone = [executed(f"a#{n}", 10 * n, 10 * n + 1, site="shop:open") for n in (1, 2)]
    events = [executed(call, n, n + 0.5, role, site) for n, (call, role, site) in enumerate(calls)]
    assert planned(ran(*events, *alone)) == [
        "Order site=shop:pay roles='a#1,b#1' seconds=2.0",
        "Order site=bank:ask roles='b#1,a#1' seconds=2.0",
        "Order site=shop:pay roles='b#2,a#2' seconds=2.0",
    ]


_SPANS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 4)), min_size=1, max_size=8)


@settings(deadline=None, max_examples=200)
@given(_SPANS)
def test_only_calls_that_executed_alone_have_an_order(spans: list[tuple[int, int]]) -> None:
    """Two calls at one time may need each other, so no order is right for them."""
    times = {
        f"{'ab'[n % 2]}#{n + 1}": (begin + n / 100, begin + n / 100 + taken) for n, (begin, taken) in enumerate(spans)
    }
    run = ran(*(executed(call, *each) for call, each in times.items()))

    def meets(one: str, other: str) -> bool:
        return one != other and times[one][0] < times[other][1] and times[other][0] < times[one][1]

    alone = sorted((c for c in times if not any(meets(c, each) for each in times)), key=lambda c: times[c][0])
    wanted = ",".join(alone) if len({call[0] for call in alone}) == 2 else ""
    assert [fault.roles for fault in replay_of(run, 2).plan.faults] == ([tuple(alone)] if wanted else [])
    said = f"the order of {len(times) - len(alone)} calls of {SITE} at shop: others executed meanwhile"
    assert replay_of(run, 2).notes == ([said] if len(alone) < len(times) else [])


def test_a_call_that_did_not_end_has_no_order() -> None:
    events = [*executed("a#1", 1, 2), *executed("b#1", 3, 4)[:1], *executed("a#2", 5, 6)]
    assert planned(ran(*events)) == []


def test_a_call_that_a_duplicate_executes_twice_is_one() -> None:
    run = ran(*executed("a#1", 1, 2), *executed("a#1", 3, 4), *executed("b#1", 5, 6))
    assert planned(run) == [f"Order site={SITE} roles='a#1,b#1' seconds=2.0"]


def opened(role: str, nth: int, begun: float, ended: float) -> list[Event]:
    call = {"site": SITE, "nth": nth, "to": "shop", "via": "rpc"}
    return [Event(role, "invoke", begun, call), Event(role, "ok", ended, call)]


@pytest.mark.parametrize(("threads", "ordered"), [(2, False), (3, True), (None, True)])
def test_an_order_needs_a_thread_for_each_call_at_once(threads: int | None, ordered: bool) -> None:
    """A call that waits keeps its thread, so that with fewer of them the call that is due may never execute. Here a has
    two calls open at once, and b one, at another time."""
    up = [Event(role, "up", 0, {"threads": count}) for role, count in (("shop", threads), ("a", 1))]
    calls = [opened("a", 1, 0.9, 2.9), opened("a", 2, 0.95, 2.95), opened("b", 1, 3, 4), opened("b", 2, 4.1, 4.2)]
    executions = [executed("a#1", 1, 1.5), executed("a#2", 2, 2.5), executed("b#1", 3.1, 3.5)]
    run = ran(*up, *calls, *executions)
    assert planned(run) == ([f"Order site={SITE} roles='a#1,a#2,b#1' seconds=2.0"] if ordered else [])
    said = f"the order of calls of {SITE} at shop: it has fewer threads (2) than calls at once (3)"
    assert replay_of(run, 2).notes == ([] if ordered else [said])


def test_an_order_has_an_end() -> None:
    run = ran(*(executed(f"{'ab'[n % 2]}#{n // 2 + 1}", n, n + 0.5) for n in range(MOST + 6)))
    found = replay_of(run, 2)
    assert len(found.plan.faults[0].roles or ()) == MOST
    assert found.notes == [f"the order of 6 calls of {SITE} at shop: wanted at most {MOST}"]


def test_a_role_that_counts_its_calls_anew_has_no_order() -> None:
    starts = [Event("a", "start", at, {"pid": 1}) for at in (0, 0.5)]
    run = ran(*starts, *executed("a#1", 1, 2), *executed("b#1", 3, 4))
    assert planned(run) == []
    assert replay_of(run, 2).notes == ["the order of calls: a started RPC twice, and counted its calls anew"]


def test_faults_are_fixed_to_the_calls_that_they_hit() -> None:
    plan = (
        f"seed=7; Delay site={SITE} side=reply chance_percent=50.0 seconds=0.1; "
        f"Raise site={SITE} every=true side=reply; Drop site={SITE} nth=9 side=reply; "
        "Pause role=a at=up@a seconds=0.1; Hold role=b at=up@b seconds=0.1; "
        "Delay message=PYTHON_CALL seconds=0.1"
    )
    events = [
        fired(0, "Delay", "b", 3),
        fired(1, "Raise", "a", 1),
        fired(1, "Raise", "a", 2),
        Event("a", "fired", 0, {"fault": 3, "kind": "Pause"}),
    ]
    executions = [executed("b#3", 5, 6, site=SITE), executed("a#1", 7, 8, site=SITE)]  # of calls that faults hit
    found = replay_of(ran(*events, *executions, plan=plan, order=False), 2)
    assert found.plan == Plan.parse(
        f"seed=7; Delay site={SITE} role=b nth=3 side=reply seconds=0.1; Raise site={SITE} role=a nth=1 side=reply; "
        f"Raise site={SITE} role=a nth=2 side=reply; Pause role=a at=up@a seconds=0.1; "
        "Delay message=PYTHON_CALL seconds=0.1"
    )
    assert found.notes == [
        f"Drop site={SITE} nth=9 side=reply: it did not fire",
        "Hold role=b at=up@b seconds=0.1: it did not fire",
        "the order of calls: the run did not record it (wanted --order)",
    ]


def test_runs_differ_by_what_fired_and_not_by_numbers_or_orders() -> None:
    plan = f"Raise site={SITE} side=reply every=true; Duplicate site={SITE}; Order site={SITE} roles=a,b seconds=1"
    first = ran(fired(0, "Raise", "a", 1), fired(1, "Duplicate", "a", 2), plan=plan)
    assert difference(first, ran(fired(1, "Raise", "a", 1), fired(0, "Duplicate", "a", 2), plan=plan)) == ""
    order = Event("shop", "fired", 5, {"fault": 2, "kind": "Order", "caller": "b", "nth": 1})
    assert difference(first, ran(*first.timeline.events, order, plan=plan)) == ""
    other = ran(fired(0, "Raise", "a", 1), fired(0, "Raise", "a", 1), fired(1, "Duplicate", "b", 2), plan=plan)
    assert difference(first, other) == (
        "missing: shop fired kind=Duplicate caller=a nth=2; "
        "new: shop fired kind=Raise caller=a nth=1, shop fired kind=Duplicate caller=b nth=2"
    )


ENDED = {"a": End("Returned", "returned", 9.0), "shop": End("Returned", "returned", 9.0)}
UP = [Event(role, event, -1.0) for role in ENDED for event in ("start", "up", "shutdown")]
DUPLICATE = [fired(0, "Duplicate", "a", 1), fired(0, "Duplicate", "a", 1, "effective")]


def whole(*events: Event, plan: str = f"Duplicate site={SITE} role=a", **fields: Any) -> Run:
    """Return a run that has ended: two roles, which returned."""
    return replace(ran(*UP, *events, plan=plan, order=False), **{"ends": ENDED, "bound": 9.0, **fields})


def test_runs_with_the_same_facts_and_verdict_are_the_same() -> None:
    assert compare(whole(*DUPLICATE), whole(*DUPLICATE)) == (True, "the same facts, and the same verdict: unchecked")


def test_a_fault_that_did_not_fire_is_not_missed() -> None:
    """The plan that repeats the run does not have it."""
    first = whole(*DUPLICATE, plan=f"Duplicate site={SITE} role=a; Drop site={SITE} role=a nth=9 side=reply")
    assert compare(first, whole(*DUPLICATE))[0] is True


def test_another_verdict_is_a_difference() -> None:
    again = whole(*DUPLICATE, leaks=("an RRef",))
    assert compare(whole(*DUPLICATE), again) == (False, "the verdict is leaked, wanted unchecked")


def test_an_order_that_was_not_kept_is_a_difference() -> None:
    """Also if the verdict of the first run is not known."""
    order = f"Duplicate site={SITE} role=a; Order site={SITE} roles=a#1,b#1 seconds=1"
    for first in (whole(*DUPLICATE), replace(whole(*DUPLICATE), complete=False)):
        same, told = compare(first, whole(*DUPLICATE, plan=order))
        assert (same, "the order of calls of shop:pay was not kept" in told) == (False, True)


def test_a_run_without_an_end_has_no_verdict_to_compare() -> None:
    first = replace(whole(*DUPLICATE), complete=False)
    assert compare(first, whole(*DUPLICATE))[0] is None


@pytest.mark.parametrize(("trace", "same"), [("wrong", None), ("equal", True)])
def test_results_that_were_checked_in_the_first_run_only(trace: str, same: bool | None) -> None:
    first = whole(*DUPLICATE, trace=trace, difference="4, wanted 3")
    assert compare(first, whole(*DUPLICATE))[0] is same
    assert compare(first, replace(first))[0] is True


UNFIRED = f"Corrupt site={plays.COINS} role=till nth=99 side=request change=bit"


@pytest.mark.usefixtures("forkserver")
@pytest.mark.parametrize(
    ("till", "plan"),
    [
        (plays.careless, f"seed=3; Raise {PAY} side=request chance_percent=50.0"),
        (plays.careful, f"Crash {PAY} nth=2 when=after"),
        (plays.careful, f"Duplicate site={plays.PAY} every=true; Delay {PAY} nth=3 side=reply seconds=0.05"),
        (plays.careful, "Pause role=shop at=up@till seconds=0.1"),
        (plays.trusting, f"seed=5; {UNFIRED}; Corrupt site={plays.COINS} every=true side=request change=bit"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_the_plan_of_a_run_gives_the_same_facts(till: Any, plan: str, tmp_path: Path) -> None:
    first, judged = runs.run(plays.subject(till), Plan.parse(plan), tmp_path / "first", order=True)
    found = replay_of(first, 1)
    again, judged_again = runs.run(plays.subject(till), found.plan, tmp_path / "again", order=True)
    assert facts(first), judged
    assert difference(first, again) == ""
    assert _changes(again) == _changes(first)
    if "99" not in plan:
        assert judged_again.verdict == judged.verdict


def _changes(run: Run) -> list[tuple[object, ...]]:
    """Return which bits of which tensors were changed."""
    details = [event.details for event in run.timeline.of("fired")]
    return [(each["tensor"], each["element"], each["bit"], each["new"]) for each in details if "bit" in each]
