"""Whether the faults of a plan fired, how often, and whether that had an effect, from the ledgers alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faults.judge.causes import without_effect
from faults.judge.facts import Facts
from faults.judge.proof import Proof, repeated
from faults.ledger import Event
from faults.ledger.record import Run
from faults.plan import Plan
from tests.judge.by_hand import CRASH, DELAY, DROP, PAY, crashed, event, fired, raised, script, started, world

RAISE = "Raise site=shop:pay role=a nth=1 side=request"
EVERY = "Drop site=shop:pay every=true side=reply"
FLIGHT = "Raise site=shop:pay role=a every=true side=flight"
SEVERAL = "Drop site=shop:pay role=a nth=1-3 side=reply"
TWICE = [fired(), fired(time=2.1)]
AGAIN = started("b", 4.0, 22)


def call(name: str, time: float = 1.0, nth: int = 1, role: str = "a", **details: object) -> Event:
    return event(role, name, time, **{**PAY, "nth": nth, "to": "b", **details})


HIT = call("invoke", faults=[0])


def proof(run: Run) -> Proof:
    return Facts(run).fired


class TestFired:
    @pytest.mark.parametrize(
        ("plan", "events", "holds"),
        [
            (DROP, [fired()], True),
            (DROP, [], False),
            (DROP, TWICE, False),
            (DROP, [fired(7)], False),
            (SEVERAL, [], False),
            (SEVERAL, [fired()], True),  # the program made no more calls
            (SEVERAL, [*TWICE, fired()], True),
            (SEVERAL, [*TWICE, *TWICE], False),
            (SEVERAL, [HIT, call("ok"), call("invoke", nth=2, faults=[0]), call("ok", nth=2), fired()], False),
            (CRASH, [crashed(), crashed()], False),
            (CRASH, [crashed(), event("b", "failed", 3.0, fault=0, caller="a", **PAY, why="it did not end")], False),
            (CRASH, [crashed(), event("b", "failed", 3.0, fault=1, caller="a", **PAY, why="another one")], True),
            (f"{DROP}; {CRASH}", [fired(), crashed(fault=1)], True),
            (f"{DROP}; {CRASH}", [fired(1)], False),
            *((f"Drop site=shop:pay {which} side=reply", TWICE, True) for which in ("every=true", "chance_percent=50")),
            ("Order site=shop:pay roles=a,b nth=1 seconds=5", TWICE, False),  # all callers together fire it once
            ("Drop site=shop:pay nth=1 side=reply", TWICE, True),  # each caller counts its own calls
            (EVERY, [], False),
            (EVERY, [HIT, call("ok"), *TWICE], False),  # more often than in calls
            (EVERY, [HIT, call("ok"), fired()], True),
            (EVERY, [HIT, HIT, call("ok"), fired()], False),
            (EVERY, [HIT, call("ok"), call("invoke", nth=2), call("ok", nth=2), fired()], True),  # it hit one
            (EVERY, [replace(HIT, life=1), replace(HIT, life=2), replace(call("ok"), life=2), fired()], True),
            (EVERY, [HIT, HIT, call("ok"), fired(), event("b", "failed", 2.0, fault=0, why="no tensor")], True),
            (EVERY, [HIT, call("invoke", nth=2, faults=[0]), call("ok"), fired()], True),  # it may not have arrived
            (EVERY, [HIT, call("ok"), event("b", "failed", 2.0, fault=0, why="no tensor")], False),
        ],
    )
    def test_every_fault_fired_as_often_as_it_says(self, plan: str, events: list[Event], holds: bool) -> None:
        assert proof(world(plan, *events))[0] is holds

    def test_a_fault_happens_once_in_all_lives_unless_it_says_every_life(self) -> None:
        for role, lives, holds in (("a", "", False), ("a", " lives=every", True), ("b", " lives=every", False)):
            plan = DROP.replace("role=a", f"role={role}") + lives
            assert proof(script(plan, *TWICE, *started("a", 4.0, 11)))[0] is holds
        assert proof(script(f"{CRASH} lives=every", crashed(), crashed(process=22), *AGAIN, cut="b"))[0] is True
        assert proof(script(DROP, *TWICE, *started("a", 2.05, 11)))[0] is False  # this life began after it fired
        order = "Order site=shop:pay roles=a,b nth=1 seconds=5 lives=every"
        assert proof(script(order, *TWICE, *started("a", 4.0, 11)))[0] is True
        three = [crashed(), *(crashed(process=process) for process in (22, 23))]
        assert proof(script(f"{CRASH} lives=every", *three, *AGAIN, cut="b"))[0] is False

    def test_a_duplicate_is_proven_when_the_call_has_ended_again(self) -> None:
        plan, done = "Duplicate site=shop:pay role=a nth=1", event("b", "effective", 2.5, fault=0, **PAY, executions=2)
        assert proof(world(plan, fired(), done))[0] is True
        cut = proof(world(plan, fired()))
        assert cut == (False, f"{plan} fired 0 times, wanted 1 (the call began again, and did not end)")

    def test_lives_that_began_before_it_fired_do_not_know_of_each_other(self) -> None:
        """Two worlds at once, in which roles have the same names."""
        beside = started("a", 1.0, 11)
        assert proof(script(DROP, *TWICE, *beside))[0] is True
        assert proof(script(DROP, *TWICE, fired(), *beside))[0] is False

    def test_it_says_how_often_and_in_how_many_lives(self) -> None:
        assert proof(world(DROP, fired()))[1] == "1 of 1 faults"
        assert [*repeated(world(DROP, fired()))] == []
        assert [*repeated(world(EVERY, *TWICE, fired()))] == [f"{EVERY} fired 3 times"]
        assert [*repeated(world(SEVERAL, fired()))] == [f"{SEVERAL} fired 1 of 3 times"]
        assert proof(world(SEVERAL))[1].startswith(f"{SEVERAL} fired 0 times, wanted 1 to 3")
        calls = [call("invoke", faults=[0], process=process) for process in (1, 11, 12)]
        many = f"{EVERY} fired 3 times, in 3 lives"
        assert [*repeated(script(EVERY, *calls, *TWICE, fired()))] == [many]
        both = f"{EVERY}; Drop site=shop:buy every=true side=reply"
        for made in ([HIT, call("invoke", faults=[1], site="shop:buy", process=11)], []):
            found = [*repeated(script(both, *made, fired(1, process=22), *TWICE))]
            assert found == [f"{EVERY} fired 2 times"]
        lives = [crashed(), *(crashed(process=process) for process in (22, 23)), *AGAIN, *started("b", 6.0, 23)]
        [line] = repeated(script(f"{CRASH} lives=every", *lives, cut="b"))
        assert line.endswith(" fired 3 times, in 3 lives")

    def test_it_says_what_is_wrong_and_why(self) -> None:
        sites = "recorded calls of this site: none"
        assert proof(world(DROP))[1] == f"{DROP} fired 0 times, wanted 1 ({sites})"
        assert proof(world(EVERY))[1] == f"{EVERY} fired 0 times, wanted at least 1 ({sites})"
        lost = proof(world(EVERY, HIT, HIT, call("ok"), fired()))[1]
        assert lost == f"{EVERY} fired 1 times, wanted 2: the calls that it hit"
        failed = event("a", "failed", 1.0, fault=0, why="c has no process here")
        told = proof(world("Pause role=c at=up@a seconds=1", failed))[1]
        assert told.endswith("wanted 1 (no role c was seen, only a, b)")

    @pytest.mark.parametrize(
        ("plan", "ends", "holds"),
        [
            ("Delay message=PYTHON_CALL seconds=1", [call("ok", via="rpc", seconds=1.0)], True),
            ("Delay message=PYTHON_CALL seconds=1", [call("ok", via="rpc", seconds=0.9)], None),
            ("Delay message=PYTHON_CALL seconds=1", [call("ok", via="rpc", seconds=1.0, to="a")], None),
            ("Delay message=PYTHON_REMOTE_CALL seconds=1", [call("ok", via="rpc", seconds=1.0)], None),
            ("Drop message=PYTHON_CALL times=1", [call("ok", via="rpc", error="eof")], None),
            ("Drop message=RREF_USER_DELETE times=1", [call("ok", via="rpc")], None),
        ],
    )
    def test_a_fault_of_a_message_needs_evidence_in_a_call(
        self, plan: str, ends: list[Event], holds: bool | None
    ) -> None:
        found = proof(world(plan, *ends))
        assert found == (holds, "1 of 1 faults" if holds else f"{Plan.parse(plan)}: left no evidence")


def test_the_first_effect_is_the_firing_or_the_call_that_shows_it() -> None:
    order = f"Order site=shop:pay roles=a,b nth=1 seconds=5; {DROP}; Delay message=PYTHON_CALL seconds=1; {CRASH}"
    held, slow = call("invoke", 1.5, faults=[0, 1]), call("ok", 5.0, via="rpc", seconds=3.0)
    found = Facts(world(order, held, slow, fired(1), fired(1, time=4.0), fired(7), fired(0, time=7.0))).effects
    assert {number: each and each.time for number, each in found.items()} == {0: 1.5, 1: 2.0, 2: 2.0, 3: None}


def effective(number: int) -> Event:
    """The effect of what `fired` makes."""
    return replace(fired(number, time=2.5), event="effective")


def seen(run: Run) -> list[str]:
    return list(without_effect(Facts(run)))


class TestEffects:
    """Whether a fault that fired is told to have had no effect."""

    @pytest.mark.parametrize("plan", [DROP, RAISE, "Crash site=shop:pay role=a nth=1 when=after"])
    def test_a_lost_call_that_is_answered(self, plan: str) -> None:
        assert seen(world(plan, HIT, fired(), call("ok", nth=2), call("ok", role="b"))) == []
        told = f"{Plan.parse(plan)} fired, but a got an answer nevertheless"
        assert seen(world(plan, HIT, fired(), call("ok"))) == [told]
        assert seen(world(plan, HIT, fired(), call("ok", process=11))) == []  # of another life

    def test_a_callee_that_is_asked_to_end_may_answer(self) -> None:
        plan = "Crash site=shop:pay role=a nth=1 when=after how=term"
        assert seen(world(plan, HIT, fired(), call("ok"))) == []

    def test_a_refused_value_is_there_to_be_fetched(self) -> None:
        there = call("ok", via="remote")
        assert len(seen(world(RAISE, HIT, fired(), there))) == 0
        assert len(seen(world(DROP, HIT, fired(), there))) == 1

    @pytest.mark.parametrize(
        ("plan", "instead"),
        [
            (DELAY, "no role saw an effect"),
            ("Duplicate site=shop:pay role=a nth=1", "no role saw an effect"),
            ("Pause role=b at=up@a seconds=0.5", "no role saw an effect"),
            ("Partition role=b at=up@a direction=both", "hit no packet"),
            (
                "Corrupt site=shop:pay role=a nth=1 side=reply change=bit",
                "nothing was changed: the tensor has these bits already (0x3f)",
            ),
        ],
    )
    def test_a_fault_with_a_receipt_needs_it(self, plan: str, instead: str) -> None:
        hit, told = fired(old="0x3f"), f"{Plan.parse(plan)} fired, but {instead}"
        assert seen(world(plan, hit, effective(0))) == []
        assert seen(world(plan, hit, effective(1))) == [told]

    def test_a_delay_whose_caller_gave_up(self) -> None:
        assert seen(world(DELAY, HIT, fired(), call("info"))) == []
        assert len(seen(world(DELAY, HIT, fired(), call("info", role="b")))) == 1
        assert len(seen(world("Duplicate site=shop:pay role=a nth=1", HIT, fired(), call("info")))) == 1

    @pytest.mark.parametrize(("ends", "count"), [(["info"], 0), (["ok"], 1), (["info", "ok"], 1), ([""], 0)], ids=str)
    def test_a_call_in_flight_has_to_fail_at_its_caller(self, ends: list[str], count: int) -> None:
        calls = [call(name, nth=nth, faults=[0]) for nth, end in enumerate(ends, 1) for name in ("invoke", end) if name]
        firings = [replace(fired(), details={**fired().details, "nth": nth}) for nth in range(1, len(ends) + 1)]
        assert len(seen(world(FLIGHT, *firings, *calls))) == count
        for unhit in ([], [call("invoke")], [call("invoke", role="b", faults=[0])]):
            assert len(seen(world(FLIGHT, fired(), *unhit))) == 1

    def test_a_crash_ends_its_process(self) -> None:
        assert seen(script(CRASH, crashed(), cut="b")) == []
        assert len(seen(script(CRASH, crashed()))) == 1
        assert seen(script(f"{CRASH} how=term", crashed())) == []  # a handler may do anything

    def test_a_role_that_ended_while_it_was_held_cannot_say_so(self) -> None:
        hold = "Hold role=b at=up@b seconds=1"
        held = fired(pid=2)
        assert seen(world(hold, held, raised("b", "Lost"))) == []
        assert len(seen(world(hold, held))) == 1

    def test_each_firing_is_judged_by_its_own_call(self) -> None:
        second = replace(fired(time=3.0), details={**fired().details, "nth": 2})
        hit = call("invoke", nth=2, faults=[0])
        assert len(seen(world(EVERY, HIT, hit, fired(), second, call("ok", nth=2)))) == 1
        assert len(seen(world("Duplicate site=shop:pay every=true", fired(), second, effective(0)))) == 1
