"""The rules, each on runs that keep what it wants and on runs that break it: docs/verdicts.md, sentence by sentence."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faults.judge.proof import LOST as LOST_MESSAGE
from faults.judge.rules import judge
from faults.ledger import Event
from faults.ledger.error_links import Link, to_json
from faults.ledger.record import COMMAND, End, Run
from faults.plan import Plan
from faults.script.script import run_script
from tests.judge.by_hand import (
    BASES,
    CRASH,
    DELAY,
    DROP,
    PAY,
    PROCESSES,
    check,
    command,
    crashed,
    event,
    fired,
    raised,
    script,
    started,
    verdict,
    world,
)

# The mistakes and the time-outs of docs/verdicts.md.
MISTAKES = (
    *("AssertionError", "NameError", "AttributeError", "TypeError", "LookupError", "ArithmeticError", "ImportError"),
)
TIMEOUTS = ("TimeoutError", "BrokenBarrierError", "Empty", "Full", "TimeoutExpired", "DistStoreError")
UNSEEN = "Drop message=PYTHON_CALL times=1"
OVERDUE = End("Overdue", "was overdue", 160.0)
LOST = raised("a", "Lost")
EFFECTIVE = event("b", "effective", 2.5, fault=0, kind="Corrupt")
TOO_LATE = "a raised Lost: no, 5.1 s after the last fault before that, wanted at most 5.0 s: the bound that was given"


def killed(by: str = "SIGKILL", time: float = 102.5) -> End:
    return End("Killed", f"was killed by {by}", time)


def left(role: str = "b", time: float = 8.5, **counts: int) -> Event:
    return event(role, "left", time, **{"num_owner_rrefs": 0, **counts})


def test_the_first_rule_that_does_not_hold_gives_the_verdict() -> None:
    run = script(f"{CRASH}; {DELAY}", fired(1), raised("a", "NameError", 9.5), raised("b", "NameError", 1.0), status=1)
    run = replace(run, gaps=["a.jsonl is missing"], leaks=["x"], trace="wrong")
    checks, found = [], []
    repairs: tuple[dict[str, Any], ...] = (
        {"gaps": []},
        {"bound": 30.0},
        {"leaks": []},
        {"trace": None},
        {"timeline": script("seed=0", fired(1), LOST, event("b", "exit", 3.0, status=0)).timeline},
        {"plan": Plan.parse(f"{CRASH}; {DROP}")},
        {"timeline": script("seed=0", fired(1), crashed(), LOST, cut="b").timeline},
    )
    for repaired in repairs:
        judgement = judge(run)
        found.append(judgement.verdict)
        checks.append([each.name for each in judgement.complaints])
        run = replace(run, **repaired)
    assert found == ["unknown", "hung", "leaked", "wrong", "wrong", "needless failure", "not fired"]
    assert checks[0] == ["record", "ends", "left", "result", "errors", "needed", "fired"]
    assert verdict(run) == "failed loudly"


@pytest.mark.parametrize(
    ("run", "wanted", "status"),
    [
        (world(), "unchecked", 0),
        (script(), "unchecked", 0),
        (world(trace="equal"), "equal", 0),
        (script(DROP, fired(), trace="equal"), "equal", 0),
        (world(DROP, fired(), LOST), "failed loudly", 0),
        (script(DROP, fired(), LOST, status=1), "failed loudly", 0),
        (script(DROP, fired(), status=1), "failed loudly", 0),
        (world(trace="wrong"), "wrong", 1),
        (world(trace="unknown"), "unknown", 3),
        (world(DROP), "not fired", 1),
        (script(CRASH, LOST), "wrong", 1),
        (world(ends={"a": OVERDUE}), "hung", 1),
        (world(leaks=["a still runs (process 1)"]), "leaked", 1),
        (world(DELAY, fired(), LOST), "needless failure", 1),
        (world(UNSEEN), "unknown", 3),  # it would pass if the message's fault had left evidence
        (world(UNSEEN, event("a", "info", 2.0, **PAY, via="rpc", to="b", error=LOST_MESSAGE)), "unchecked", 0),
        (world(UNSEEN, trace="wrong"), "wrong", 1),
        (world(f"{UNSEEN}; {DROP}"), "not fired", 1),
    ],
)
def test_each_run_has_its_verdict_and_exit_status(run: Run, wanted: str, status: int) -> None:
    judgement = judge(run)
    assert judgement.verdict == wanted, str(judgement)
    assert judgement.status == status, str(judgement)
    assert judgement.succeeded == (wanted in ("equal", "unchecked"))
    assert all(each.text and "\n" not in str(each) for each in judgement.checks)


def test_what_does_not_hold_is_said_line_by_line() -> None:
    found = str(judge(world(DROP, trace="wrong", difference="1 ULP"))).splitlines()
    assert found == [
        "FAIL     result: 1 ULP",
        f"FAIL     fired: {DROP} fired 0 times, wanted 1 (recorded calls of this site: none)",
        "pass     record, ends, left, errors, needed, evidence",
        "verdict: wrong",
    ]


def test_a_role_that_was_started_again_has_recovered_if_the_result_is_right() -> None:
    again = [*started("b", 4.0, process=22), event("b", "exit", 8.0, status=0, process=22)]
    for trace, wanted in (("equal", "recovered"), (None, "unchecked"), ("wrong", "wrong")):
        assert verdict(script(CRASH, crashed(), *again, trace=trace)) == wanted
    assert verdict(script(CRASH, crashed(), cut="b", trace="equal")) == "equal"


def test_an_unchecked_script_is_told_how_to_compare() -> None:
    told = "no result was compared: --check, --same-output or --same-file says what is right"
    assert [told in judge(run).notes for run in (script(), world(), script(trace="equal"))] == [True, False, False]


class TestHung:
    @pytest.mark.parametrize(
        ("run", "text"),
        [
            (world(ends={"a": OVERDUE}), "a missed the deadline, wanted an end of every role"),
            (
                world(ends={"a": OVERDUE, "b": replace(OVERDUE, text="stopped, ended after 10 s")}),
                "a missed the deadline; b stopped, ended after 10 s, wanted",
            ),
            (
                script(ends={COMMAND: OVERDUE}, cut="b", running=[2], waits={"b (process 2)": "shop.py:7", "+x": "y"}),
                "the command missed the deadline while b still ran; b (process 2) waits at shop.py:7, wanted",
            ),
            (
                script(ends={COMMAND: OVERDUE}, waits={f"process {n}": "shop.py:7" for n in range(10)}),
                f"the command missed the deadline{''.join(f'; process {n} waits at shop.py:7' for n in range(8))}; 2 m",
            ),
        ],
    )
    def test_the_deadline_was_missed(self, run: Run, text: str) -> None:
        assert check("ends", run).holds is False
        assert verdict(run) == "hung"
        assert check("ends", run).text.startswith(text)

    @pytest.mark.parametrize(("hit", "by"), [(2, "which the plan had killed"), (7, "which was killed")])
    def test_a_role_that_outlives_a_command_that_was_killed_hangs(self, hit: int, by: str) -> None:
        end = {COMMAND: replace(killed(), process=2)}
        run = script(CRASH, crashed(pid=hit), cut="b", running=[2], seconds=14.0, ends=end)
        text = f"b still ran 9.5 s after the command, {by}, wanted an end of every role"
        assert verdict(run) == "hung"
        assert check("ends", run).text == text
        assert verdict(replace(run, running=[])) == "failed loudly"

    @pytest.mark.parametrize("told", [raised("b", "Lost"), event("b", "exit", 3.0, status=1)], ids=["raised", "exit"])
    def test_so_does_one_that_has_told_its_end(self, told: Event) -> None:
        end = {COMMAND: replace(killed(), process=1)}
        run = script(CRASH, crashed("a"), told, cut="a", running=[2], seconds=14.0, ends=end)
        assert check("ends", run).text.startswith("b still ran 9.5 s after the command, which the plan had killed, ")

    @pytest.mark.parametrize(("time", "late"), [(7.0, False), (7.1, True)])
    @pytest.mark.parametrize("make", [world, script])
    def test_who_fails_has_to_end_within_the_bound_after_the_fault(self, make: Any, time: float, late: bool) -> None:
        run = make(DROP, fired(), raised("a", "Lost", time))
        assert check("ends", run).holds is not late
        assert not late or check("ends", run).text == TOO_LATE

    def test_the_last_fault_before_the_failure_counts(self) -> None:
        between = [fired(time=1.0), fired(time=4.0), raised("a", "Lost", 8.5)]
        assert check("ends", script(DROP, *between)).holds is True
        assert check("ends", script(DROP, between[0], fired(time=9.0), between[2])).holds is False

    def test_a_later_life_counts_from_the_message_that_it_lost(self) -> None:
        """torch tells of no message that it drops, so no firing is recorded, in no life."""
        again, lost = started("a", 8.0, 11), {**PAY, "to": "b", "via": "rpc", "error": f"RuntimeError: {LOST_MESSAGE}"}
        first = [event("a", "info", 1.0, **lost), raised("a", "Lost", 1.1)]
        call, end = event("a", "info", 13.0, **lost, process=11), raised("a", "Lost", 13.1, 11)
        plan = f"{UNSEEN} role=a"
        assert check("ends", script(plan, *first, *again, call, end)).holds is True
        assert check("ends", script(plan, *first, *again, end)).holds is False

    @pytest.mark.parametrize(("time", "late"), [(13.0, False), (13.1, True)])
    def test_a_later_process_counts_from_its_begin(self, time: float, late: bool) -> None:
        """A network may still be hurt. Each process takes its own time to find that out."""
        plan, cut = "Partition role=a direction=both", fired(role="a", kind="Partition")
        run = script(plan, cut, raised("a", "Lost", 6.0), *started("a", 8.0, 11), raised("a", "Lost", time, 11))
        assert check("ends", run).holds is not late
        assert not late or ", 5.1 s after the begin of its process, wanted at most 5.0 s" in check("ends", run).text
        same = script(plan, cut, *started("a", 8.0), raised("a", "Lost", time))  # it has hung before
        assert check("ends", same).holds is False

    @pytest.mark.parametrize(
        ("works", "first", "late"),
        [
            (range(3, 60), 60, False),
            ((), 60, True),  # it waits in vain, and then tells its dead peer so
            (range(3, 50), 60, True),  # so does this one, after some work
            ((*range(3, 60, 2),), 4, True),  # it tries again and again
            (range(3, 60), 70, True),  # it fails by something else
        ],
    )
    def test_a_fault_that_still_stands_counts_from_the_last_call_before_it_was_met(
        self, works: Sequence[int], first: int, late: bool
    ) -> None:
        work = [
            event("a", name, time, site="shop:look", nth=time, to="c") for time in works for name in ("invoke", "ok")
        ]
        lost = [
            event("a", name, time, **{**PAY, "nth": time}, to="b")
            for time in range(first, 71, 2)
            for name in ("invoke", "fail")
        ]
        run = world(CRASH, crashed(), *work, *lost, raised("a", "Lost", 60.5))
        assert check("ends", run).holds is not late

    @pytest.mark.parametrize(("time", "late"), [(113.0, False), (113.1, True)])
    def test_a_command_is_counted_from_the_last_roles_end(self, time: float, late: bool) -> None:
        run = script(DROP, fired(), event("b", "exit", 8.0, status=0), raised("a", "Lost", 6.0))
        run = replace(run, ends={COMMAND: command(1, time)})
        assert check("ends", run).holds is not late
        ended = script(DROP, fired(), raised("a", "Lost", 6.0), cut="b", gone={2: 110.0})  # by the command itself
        assert check("ends", replace(ended, ends={COMMAND: command(1, 111.1)})).holds is False

        outlived = script(DROP, fired(), raised("a", "Lost", 6.0), event("b", "exit", 14.0, status=0))
        assert check("ends", replace(outlived, ends={COMMAND: command(1, 111.1)})).holds is False
        early = script(DROP, fired(), LOST, event("b", "exit", 3.0, status=0), fired(time=8.0))
        assert check("ends", replace(early, ends={COMMAND: command(1, 112.5)})).holds is True

    def test_a_launcher_that_waits_in_vain_hangs(self) -> None:
        run = script(DROP, fired(), status=1, cut="ab", gone={1: 109.9, 2: 109.9})
        assert check("ends", run).text.startswith("the command exited with status 1, 8.0 s after the last fault")

    def test_who_returns_takes_as_long_as_it_takes(self) -> None:
        assert check("ends", world(DROP, fired(), ends={"a": replace(world().ends["a"], time=1e6)})).holds is True

    def test_a_run_without_ends_is_unknown(self) -> None:
        assert check("ends", replace(world(), ends={})).holds is None
        assert check("ends", world(complete=False)).text == "not recorded"


class TestLeaked:
    @pytest.mark.parametrize("make", [world, script])
    def test_rrefs_and_contexts_are_left_where_every_role_returned(self, make: Any) -> None:
        run = make("seed=0", left(num_owner_rrefs=2, num_autograd_contexts=1))
        assert verdict(run) == "leaked"
        assert check("left", run).text == "b: num_owner_rrefs=2 num_autograd_contexts=1"
        assert check("left", make(DROP, fired(), left(num_owner_rrefs=2), LOST)).holds is True
        assert check("left", make("seed=0", left(num_pending_futures=1))).holds is True  # torch sends it later
        alone = event("b", "shutdown", 8.1, graceful=False)
        assert check("left", make("seed=0", alone, left(num_owner_rrefs=2))).holds is True

    def test_without_the_ends_of_the_roles_nothing_is_known_but_what_is_left(self) -> None:
        run = replace(world("seed=0", left(num_owner_rrefs=2), complete=False), ends={})
        assert (check("left", run).holds, check("left", run).text) == (None, "not recorded")
        assert check("left", replace(run, leaks=["x"])).holds is False

    def test_a_shutdown_alone_hides_nothing_of_a_later_world(self) -> None:
        alone = [event("b", "shutdown", 8.1, graceful=False), left(time=8.2, num_owner_rrefs=3)]
        again = replace(left(time=8.6, num_owner_rrefs=2), life=1)
        run = script("seed=0", *alone, *started("b", 8.3), again)
        assert check("left", run).text == "b: num_owner_rrefs=2"

    def test_an_rref_that_a_role_traced_counts(self) -> None:
        traced = [event("b", "context", 7.0, number=3, line="x.py:2 in g"), event("b", "traced", 7.1, worker=1)]
        found = check("left", world("seed=0", *traced)).text
        assert found == "autograd context 3 of b: entered at x.py:2 in g, not left"
        begun = event("b", "tracing", 0.2)
        note = "what b held is not known: it took no part in a common shutdown of a world of fixed size"
        assert judge(world("seed=0", begun, trace="equal")).notes == (note,)
        assert note not in judge(world(DROP, fired(), begun, LOST)).notes


class TestWrong:
    @pytest.mark.parametrize(
        ("events", "cut", "wanted"),
        [
            ([crashed()], "b", "wrong"),
            ([crashed(), LOST], "b", "wrong"),
            ([crashed(), event("b", "exit", 3.0, status=1)], "", "wrong"),
            ([crashed(how="exit:0"), event("b", "exit", 3.0, status=0)], "", "unchecked"),
            ([crashed(), *started("b", 4.0, 22), event("b", "exit", 8.0, status=0, process=22)], "", "unchecked"),
        ],
    )
    def test_success_without_a_role_needs_a_comparison(self, events: list[Event], cut: str, wanted: str) -> None:
        assert verdict(script(CRASH, *events, cut=cut)) == wanted
        assert verdict(script(CRASH, *events, cut=cut, trace="equal")) in ("equal", "recovered")

    @pytest.mark.parametrize("make", [world, script])
    def test_a_role_failed_before_any_fault_had_fired(self, make: Any) -> None:
        assert check("errors", make("seed=0", LOST)).text == "a raised Lost: no: no fault was planned"
        assert check("errors", make(DROP, raised("a", "Lost", 1.9), fired())).text.endswith("no fault had fired")
        assert check("errors", make(DROP, LOST, fired())).holds is True
        assert check("errors", make("Delay message=PYTHON_CALL seconds=1", LOST)).holds is True  # nobody reports it
        assert check("errors", script(status=1)).text == "the command exited with status 1: no fault was planned"

    def test_an_order_may_hurt_before_it_fires(self) -> None:
        plan = "Order site=shop:pay roles=a,b nth=1 seconds=5"
        held = event("a", "invoke", 2.0, **PAY, faults=[0], process=1)
        assert check("errors", world(plan, held, LOST)).holds is True
        assert check("errors", world(plan, raised("a", "Lost", 1.9), held)).holds is False

    @pytest.mark.parametrize(
        ("how", "end", "right"),
        [
            (None, killed(), True),
            ("segv", killed("SIGSEGV"), True),
            ("abort", killed("SIGSEGV"), True),  # faulthandler
            ("segv", killed(), False),
            ("exit:3", killed(), False),
        ],
    )
    def test_a_signal_that_neither_plan_nor_launcher_sent(self, how: str | None, end: End, right: bool) -> None:
        run = world(CRASH, crashed(how=how), ends={"b": end})
        assert verdict(run) == ("failed loudly" if right else "wrong")
        assert right or check("errors", run).text.endswith(": the plan sent no such signal")
        assert verdict(world(DROP, fired(), ends={"b": end})) == "wrong"
        assert verdict(script(DROP, fired(), status=1, cut="b", gone={2: 103.0})) == "failed loudly"

    @pytest.mark.parametrize("by", ["SIGKILL", "SIGTERM", "SIGINT"])
    def test_of_two_crashes_of_one_role_either_may_have_ended_it(self, by: str) -> None:
        """The first ended it while the second's signal was on its way, which `tests.nemesis` has found."""
        plan = "Crash role=b at=up@b; Crash role=b at=up@a how=term"
        second = event("a", "fired", 2.1, fault=1, kind="Crash", role="b", pid=PROCESSES["b"], how="term")
        run = world(plan, crashed(), second, ends={"b": killed(by)})
        assert verdict(run) == ("wrong" if by == "SIGINT" else "failed loudly")

    @pytest.mark.parametrize("name", [*MISTAKES, "KeyError", "ModuleNotFoundError"])
    def test_a_mistake_in_the_code(self, name: str) -> None:
        assert verdict(script(DROP, fired(), raised("a", name), status=1)) == "wrong"
        assert verdict(world(DROP, fired(), raised("a", name))) == "wrong"
        assert verdict(world(DROP, fired(), raised("a", "RuntimeError", callee=name))) == "wrong"
        assert verdict(world(DROP, fired(), raised("a", "RuntimeError", cause=name))) == "failed loudly"

    def test_the_clocks_of_two_machines_may_differ_by_a_second(self) -> None:
        elsewhere = [event(role, "start", 0.0, pid=pid, boot=role) for role, pid in (("c", 3), ("d", 4))]
        for time, alone, both in ((1.5, "wrong", "failed loudly"), (0.9, "wrong", "wrong")):
            assert verdict(script(DROP, fired(), raised("a", "Lost", time), status=1)) == alone
            assert verdict(script(DROP, fired(), raised("a", "Lost", time), *elsewhere, status=1)) == both
        plan = "Corrupt site=shop:pay role=a nth=1 side=reply change=bit"
        later = [fired(0, time=1.0), crashed(fault=1, time=9.3), raised("a", "Lost", 9.0)]
        corrupt = [fired(kind="Corrupt"), EFFECTIVE, raised("a", "KeyError", 2.4)]
        for text, events, cut, alone in ((f"{DELAY}; {CRASH}", later, "b", "hung"), (plan, corrupt, "", "wrong")):
            assert verdict(script(text, *events, cut=cut, status=1)) == alone
            assert verdict(script(text, *events, *elsewhere, cut=cut, status=1)) == "failed loudly"

    def test_a_mistake_that_a_role_logged_before_it_exited_was_handled(self) -> None:
        logged = event("a", "logged", 2.5, text="x", links=raised("a", "NameError").details["links"])
        assert verdict(script(DROP, fired(), logged, event("a", "exit", 3.0, status=1), status=1)) == "failed loudly"

    def test_the_commands_mistake_counts_where_no_role_had_failed_before(self) -> None:
        own = raised(COMMAND, "AssertionError", 9.5)
        assert verdict(script(DROP, fired(), own, status=1)) == "wrong"
        assert verdict(script(DROP, fired(), LOST, own, status=1)) == "failed loudly"
        later = raised("b", "Lost", 9.8)
        assert verdict(script(DROP, fired(), LOST, own, later, status=1, bound=20.0)) == "failed loudly"
        aborted = script(DROP, fired(), own, ends={COMMAND: End("Killed", "was killed by SIGABRT", 110.0, process=9)})
        assert verdict(aborted) == "wrong"

    @pytest.mark.parametrize(
        ("error", "wanted"),
        [
            (raised("a", "KeyError", text="shut"), "failed loudly"),
            (raised("a", "RuntimeError", text="shut", callee="KeyError"), "failed loudly"),
            (raised("a", "KeyError", text="x"), "wrong"),
            (raised("a", "NameError", text="shut"), "wrong"),
            (raised("a", "NameError", text="shut", cause="KeyError"), "wrong"),
        ],
    )
    def test_an_error_of_the_plan_is_no_mistake(self, error: Event, wanted: str) -> None:
        plan = "Raise site=shop:pay role=a nth=1 side=reply error=KeyError text=shut"
        assert verdict(world(plan, fired(), error)) == wanted

    @pytest.mark.parametrize(
        ("name", "wanted"), [("NameError", "wrong"), ("ModuleNotFoundError", "wrong"), ("KeyError", "failed loudly")]
    )
    def test_after_a_corrupt_that_was_delivered_data_may_be_to_blame(self, name: str, wanted: str) -> None:
        plan = "Corrupt site=shop:pay role=a nth=1 side=reply change=bit"
        assert verdict(world(plan, fired(), EFFECTIVE, raised("a", name))) == wanted
        other = event("b", "effective", 2.5, fault=1, kind="Delay")
        assert verdict(world(f"{plan}; {DELAY}", fired(), other, raised("a", name))) == "wrong"
        assert verdict(world(plan, fired(), replace(EFFECTIVE, time=3.5), raised("a", name))) == "wrong"


class TestExpected:
    """``--expect-error TYPE``."""

    @pytest.mark.parametrize(
        ("error", "expected", "wanted"),
        [
            (raised("a", "KeyError"), ["KeyError"], "failed loudly"),
            (raised("a", "KeyError"), ["LookupError"], "failed loudly"),  # a class that it derives from
            (raised("a", "RuntimeError", cause="KeyError"), ["KeyError"], "failed loudly"),
            (raised("a", "RuntimeError", callee="KeyError"), ["KeyError"], "failed loudly"),
            (LOST, ["KeyError", "Lost"], "failed loudly"),
            (LOST, ["KeyError"], "wrong"),
            (raised("a", "Lost", text="KeyError"), ["KeyError"], "wrong"),
        ],
    )
    def test_a_link_of_some_failures_chain_is_of_that_type(
        self, error: Event, expected: list[str], wanted: str
    ) -> None:
        for run in (world(DROP, fired(), error), script(DROP, fired(), error, status=1)):
            assert verdict(run, *expected) == wanted
        other = raised("b", "Lost", 3.5)
        assert verdict(script(DROP, fired(), error, other, status=1, bound=20.0), *expected) == wanted

    def test_a_failure_that_is_named_is_neither_wrong_nor_needless(self) -> None:
        assert verdict(script("seed=0", LOST, status=1), "Lost") == "failed loudly"
        assert verdict(script(DELAY, fired(), LOST, status=1), "Lost") == "failed loudly"
        assert verdict(script("seed=0", LOST, raised("b", "OSError"), status=1), "Lost") == "wrong"  # the other one

    def test_it_names_what_was_wanted_and_asks_nothing_of_a_success(self) -> None:
        found = judge(script(DROP, fired(), status=1), expected=["Lost", "KeyError"])
        assert found.complaints[0].text == "the command exited with status 1: wanted Lost or KeyError"
        found = judge(script(DROP, fired(), raised("a", "NameError"), status=1), expected=["KeyError"])
        said = "a raised NameError: no: NameError is a mistake in the code: wanted KeyError"
        assert found.complaints[0].text == said
        assert verdict(script(DROP, fired(), trace="equal"), "Lost") == "equal"
        assert verdict(script(DROP, fired(), raised("a", "OSError"), trace="equal"), "Lost") == "equal"


class TestNeedless:
    @pytest.mark.parametrize(
        "plan",
        [
            DELAY,
            "Order site=shop:pay roles=a,b nth=1 seconds=5",
            "Pause role=b at=up@b seconds=1",
            "Hold role=b at=up@b seconds=1",
            "Slow role=b latency_ms=10",
            "Partition role=b direction=both seconds=1",
            "Lossy role=b direction=both percent=50 seconds=1",
        ],
    )
    def test_it_failed_although_every_fault_loses_nothing(self, plan: str) -> None:
        for run in (script(plan, fired(), LOST, status=1), script(plan, fired(), status=1), world(plan, fired(), LOST)):
            assert verdict(run) == "needless failure"
        kind = plan.partition(" ")[0]
        text = (
            f"a raised Lost: no, although {kind} loses nothing, no call ran into its own limit, and no error is a time-"
        )
        assert check("needed", world(plan, fired(), LOST)).text.startswith(text)
        assert verdict(world(f"{plan}; {DROP}", fired(), fired(1), LOST)) == "failed loudly"
        assert check("needed", world(f"{plan}; {DROP}", fired(), LOST)).text.startswith(text)  # the loss did not fire
        assert check("needed", world(plan, LOST)).holds is True

    @pytest.mark.parametrize(
        "plan",
        [DROP, CRASH, "Partition role=b direction=both", "Lossy role=b direction=both percent=50", "Reset role=b"],
    )
    def test_a_fault_that_loses_something_may_make_it_fail(self, plan: str) -> None:
        assert check("needed", script(plan, crashed(), LOST, status=1, cut="b")).holds is True

    def test_a_message_that_may_be_lost_without_evidence_makes_it_unknown(self) -> None:
        for message, holds in (
            ("Drop message=SCRIPT_REMOTE_CALL times=1", None),
            ("Delay message=PYTHON_CALL seconds=1", False),
        ):
            run = world(f"Pause role=b at=up@b seconds=1; {message}", fired(), LOST)
            assert check("needed", run).holds is holds

    def test_success_is_never_needless(self) -> None:
        assert verdict(script(DELAY, fired(), LOST, trace="equal")) == "equal"

    @pytest.mark.parametrize(("took", "limit", "wanted"), [(2.0, 2.0, True), (1.9, 2.0, False), (9.0, 0.0, False)])
    @pytest.mark.parametrize("kind", ["fail", "info"])
    def test_a_call_ran_into_its_own_limit(self, kind: str, took: float, limit: float, wanted: bool) -> None:
        begun = event("a", "invoke", 1.0, **PAY, to="b", timeout=limit)
        ended = event("a", kind, 1.0 + took, **PAY, to="b", seconds=took)
        assert check("needed", world(DELAY, fired(), begun, ended, LOST)).holds is wanted
        assert check("needed", world(DELAY, fired(), begun, replace(ended, process=7), LOST)).holds is False

    @pytest.mark.parametrize("name", [*TIMEOUTS, "DistNetworkError"])
    @pytest.mark.parametrize("way", ["itself", "cause", "callee"])
    def test_a_chain_holds_a_time_out(self, name: str, way: str) -> None:
        error = {
            "itself": raised("a", name),
            "cause": raised("a", "Lost", cause=name),
            "callee": raised("a", "Lost", callee=name),
        }
        run = world(DELAY, fired(), error[way])
        assert check("needed", run).holds is (name in TIMEOUTS)
        failed = event("a", "fail", 2.5, **PAY, to="b", seconds=0.1, links=error[way].details["links"])
        run = world(DELAY, fired(), failed, raised("a", "Lost", text="not joined"))
        assert check("needed", run).holds is (name in TIMEOUTS)

    @pytest.mark.parametrize(
        ("text", "holds"),
        [
            ("RPCErr:1:RPC ran for more than set timeout (1000 ms)", True),
            ("RPCErr:2:RPC ran for more than set timeout (1000 ms)", False),
            ("[gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1000ms for recv operation to complete", True),
        ],
    )
    def test_something_of_torchs_own_has_timed_out(self, text: str, holds: bool) -> None:
        """Only torch's code or words tell it: no call of the program's has failed, and the error has no own type."""
        assert check("needed", world(DELAY, fired(), raised("a", "RuntimeError", text=text))).holds is holds

    def test_after_duplicate_alone_a_failure_is_needless_in_any_case(self) -> None:
        plan, late = "Duplicate site=shop:pay role=a nth=1", raised("a", "TimeoutError")
        run = world(plan, fired(), late)
        assert check("needed", run).text == "a raised TimeoutError: no, although Duplicate loses nothing"
        assert check("needed", world(f"{plan}; {DELAY}", fired(), fired(1), late)).holds is True


class TestMistakes:
    def test_a_planned_member_does_not_acquit_another_one(self) -> None:
        plan = "Raise site=shop:pay role=a nth=1 side=request error=ValueError text=''"
        members = [Link(("ExceptionGroup", "Exception"), "all"), Link(("ValueError", "Exception"), "", way="member")]
        failed = event("a", "raised", 3.0, error="ExceptionGroup: all", links=to_json(members))
        assert verdict(world(plan, fired(kind="Raise"), failed)) == "failed loudly"
        own = Link(BASES["KeyError"], "x", way="member")
        failed = event("a", "raised", 3.0, error="ExceptionGroup: all", links=to_json([*members, own]))
        found = check("errors", world(plan, fired(kind="Raise"), failed))
        assert found.text == "a raised ExceptionGroup: all: KeyError is a mistake in the code: it is a LookupError"

    def test_an_empty_text_of_the_plan_is_the_plans(self) -> None:
        plan = "Raise site=shop:pay role=a nth=1 side=request error=TypeError text=''"
        assert (
            verdict(world(plan, fired(kind="Raise"), raised("a", "TypeError", text="TypeError('')"))) == "failed loudly"
        )

    def test_the_bound_of_a_failure_is_by_the_calls_that_were_open_at_the_last_fault(self) -> None:
        """A harmless fault before that must not shorten it."""
        begun = event("a", "invoke", 2.4, **PAY, to="b", timeout=60.0)
        late = [begun, event("a", "ok", 22.0, **PAY, to="b"), raised("a", "Lost", 25.0)]
        up = event("a", "up", 0.2, rpc_timeout=1.0)
        run = world(f"{DELAY}; {DROP}", up, fired(time=1.0), fired(1, time=2.5), *late, bound=None)
        assert verdict(run) == "failed loudly"


class TestUnknown:
    def test_a_program_is_not_convicted_by_an_error_of_faults_itself(self) -> None:
        failed = event("b", "broken", 2.0, error="TypeError: x", stack="Traceback\n  File\nTypeError: x\n")
        found = judge(world(DROP, fired(), failed, raised("a", "TypeError"), trace="wrong"))
        assert found.verdict == "unknown"
        assert found.complaints[0].text == "b: faults itself failed: TypeError: x"
        assert found.notes[1:] == ("Traceback", "  File", "TypeError: x")

    def test_a_message_s_fault_without_evidence_is_named(self) -> None:
        assert [each.text for each in judge(world(UNSEEN)).complaints] == [f"{UNSEEN}: left no evidence"]


class TestNobodyIsConvicted:
    def test_by_a_role_that_is_gone_without_a_word(self) -> None:
        run = script("seed=0", cut="b", gone={2: 107.5})
        assert verdict(run) == "unchecked"
        assert "b is gone without a word, 7.5 s after the start, 2.5 s before the command's end" in judge(run).notes

    def test_by_an_error_that_ends_only_a_thread(self) -> None:
        links = raised("b", "NameError").details["links"]
        run = script(
            "seed=0", event("b", "thread", 3.0, name="reader", error="NameError: x", links=links), trace="equal"
        )
        assert verdict(run) == "equal"
        assert judge(run).notes == ("an error ended only the thread reader of b, 3.0 s after the start: NameError: x",)

    @pytest.mark.parametrize(
        ("by", "events", "ends", "torchs"),
        [
            ("SIGABRT", [LOST], {}, True),
            ("SIGABRT", [], {}, False),
            ("SIGABRT", [raised("a", "Lost", 5.0)], {}, False),  # it ended later
            ("SIGSEGV", [LOST], {}, False),
            ("SIGSEGV", [event("b", "info", 2.4, **PAY, via="remote")], {}, True),
            ("SIGKILL", [event("b", "info", 2.4, **PAY, via="remote")], {}, False),
            ("SIGSEGV", [event("b", "fail", 2.4, **PAY, via="remote")], {}, False),
            ("SIGSEGV", [event("b", "info", 2.4, **PAY, via="rpc")], {}, False),
            ("SIGSEGV", [event("a", "info", 2.4, **PAY, via="remote")], {}, False),
        ],
    )
    def test_by_a_crash_of_torch(self, by: str, events: list[Event], ends: dict[str, End], torchs: bool) -> None:
        run = world(DROP, fired(), *events, ends={"b": killed(by, 104.0), **ends})
        assert verdict(run) == ("failed loudly" if torchs else "wrong")
        assert (f"b was killed by {by}: torch itself may have crashed it" in judge(run).notes) is torchs

    def test_by_a_store_that_torch_lost_at_a_common_shutdown(self) -> None:
        """Whoever holds the store has left before."""

        def convicted(*events: Event, name: str = "DistNetworkError", cause: str = "") -> bool:
            error = raised("b", name, 4.0, cause=cause)
            found = {verdict(script("seed=0", *events, error, status=status)) for status in (0, 1)}
            assert found in ({"unchecked", "failed loudly"}, {"wrong"})
            return "wrong" in found

        begun = [event(role, "shutdown", 1.0, graceful=True) for role in "ab"]
        first, own = left("a", 2.0), left("b", 3.0)
        rude = [replace(each, details={"graceful": False}) for each in begun]
        assert not convicted(*begun, first, own)
        assert not convicted(*begun, first, own, name="RuntimeError", cause="DistNetworkError")
        for time in (4.0, 8.9):  # the latter is beyond the bound
            late = script(DELAY, fired(), *begun, first, own, raised("b", "DistNetworkError", time), status=1)
            assert verdict(late) == "failed loudly"
        assert convicted(*begun, first, own, name="RuntimeError")
        third = [event("b", "up", 0.5, workers=["a", "b", "c"]), *started("c")]
        for events in (
            [*begun, left("b", 2.0), own],  # the other one has not left
            [*begun, left("a", 3.5), own],
            [*begun, first, left("c", 2.5)],  # it has not begun its shutdown
            [rude[0], begun[1], first, own],
            [begun[0], rude[1], first, own],
            [*begun, *third, first, own],  # the third one has not come
        ):
            assert convicted(*events)
        third.append(event("c", "shutdown", 1.0, graceful=True))
        failed = [*begun, *third, first, own, raised("b", "DistNetworkError", 4.0)]
        for events, race in (([], True), ([crashed("c", 1.5)], False)):  # whoever died there has not counted itself
            run = script("Crash role=c at=shutdown@c", *failed, *events, status=1, cut="c")
            assert any("torch's own race" in note for note in judge(run).notes) is race

    def test_by_a_store_that_torch_lost_in_an_earlier_life(self) -> None:
        """Whose end does not depend on what becomes of the next one."""
        begun = [event(role, "shutdown", 1.0, graceful=True) for role in "ab"]
        failed = [*begun, left("a", 2.0), left("b", 3.0), raised("b", "DistNetworkError", 4.0)]
        again = [*started("a", 5.0, 11), *started("b", 5.0, 12), fired(0, "a", 5.2, kind="Crash", pid=11)]
        run = script("Crash role=a at=up@a", *failed, *again, status=1, cut="ab")
        assert any("b raised DistNetworkError: no: torch's own race" in note for note in judge(run).notes)

    @pytest.mark.long
    def test_by_a_real_rank_that_reads_the_last_count_after_the_first_rank_has_ended(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TP_SOCKET_IFNAME", "lo")
        program = Path(__file__).parents[1] / "scripts" / "slow_store.py"
        _, judgement = run_script([sys.executable, str(program)], Plan(), tmp_path, deadline=150)
        assert judgement.verdict == "failed loudly", judgement
        assert any("torch's own race at a common shutdown" in each for each in judgement.notes)


class Counted(dict[str, Any]):
    """An event's details that count in ``looks`` how often any of them is read."""

    looks = 0

    def get(self, *arguments: Any) -> Any:
        Counted.looks += 1
        return super().get(*arguments)

    def __getitem__(self, name: str) -> Any:
        Counted.looks += 1
        return super().__getitem__(name)


@pytest.mark.parametrize("kind", ["Delay every=true seconds=0.5 side=reply", "Drop every=true side=reply"])
def test_a_judgement_takes_time_by_the_number_of_events(kind: str) -> None:
    """A plan whose faults hit many thousand calls is judged in seconds."""

    def looks(count: int) -> int:
        events = []
        for nth in range(1, count + 1):
            details = {"site": "shop:pay", "nth": nth, "caller": "a", "fault": 0, "faults": [0]}
            for name, role in (("invoke", "a"), ("fired", "b"), ("effective", "b"), ("fail", "a"), ("ok", "b")):
                events.append(Event(role, name, 1.0, Counted(details)))
        before = Counted.looks
        judge(world(f"{kind} site=shop:pay", *events))
        return Counted.looks - before

    assert looks(400) < 3 * looks(200)
