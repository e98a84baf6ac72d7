"""The checks, each on runs that keep what it wants, break it, and do not tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from faults.ledger import Event, Timeline
from faults.ledger.record import End, Run
from faults.plan import Plan
from faults.tracebacks.error_chain import Piece, from_json
from faults.verdict import checks
from faults.verdict.checks import Check, judge
from reference.outcome import Killed

DROP = "Drop site=shop:pay role=a nth=1 side=reply"
CRASH = "Crash site=shop:pay role=a nth=1 when=after"
RAISE = "Raise site=shop:pay role=a nth=1 side=request error=KeyError"

TIMED_OUT = "RPCErr:1:RPC ran for more than set timeout (60000 ms)"

STARTS = (Event("a", "start", 0.0, {"pid": 1}), Event("b", "start", 0.0, {"pid": 2}))
UP = Event("a", "up", 0.1)
RETURNED = End("Returned", "returned", 103.0)
KILLED = End("Killed", "was killed by SIGKILL", 101.0)
OVERDUE = End("Overdue", "was overdue", 160.0)
VANISHED = End("Vanished", "vanished", 102.0)


def raised(*bases: str, time: float = 102.0, says: str = TIMED_OUT) -> End:
    return End("Raised", f"raised {bases[0]}: {says}", time, bases)


def told(role: str, kind: str, says: str = TIMED_OUT) -> Event:
    """Make the event by which a process of a script records the error that ended it."""
    causes = [{"bases": [kind], "text": says}]
    return Event(role, "raised", 2.0, {"bases": [kind], "error": f"{kind}: {says}", "causes": causes})


def fired(number: int = 0, role: str = "b", time: float = 1.0) -> Event:
    return Event(role, "fired", time, {"fault": number, "kind": "any", "caller": "a", "site": "shop:pay", "nth": 1})


def crashed(role: str = "b", process: int = 0) -> Event:
    event = fired(role=role)
    return replace(event, details={**event.details, "kind": "Crash", "pid": process})


def effective(number: int = 0) -> Event:
    return Event("b", "effective", 2.0, {"fault": number})


def answered(role: str = "a", nth: int = 1) -> Event:
    return Event(role, "ok", 2.0, {"site": "shop:pay", "nth": nth})


def run(plan: str = "seed=0", *events: Event, **different: Any) -> Run:
    """Two roles that returned, on a machine whose clock said 100 when they started."""
    timeline = Timeline((*STARTS, UP, *events), different.pop("torn", {}), ("a", "b"), zero=100.0)
    plain = Run("shop", Plan.parse(plan), timeline, {"a": RETURNED, "b": RETURNED}, bound=5.0, start=100.0)
    return replace(plain, **different)


def check(name: str, found: Run) -> Check:
    return next(each for each in judge(found).checks if each.name == name)


@pytest.mark.parametrize(
    ("found", "verdict", "status"),
    [
        (run(), "returned", 0),
        (run(trace="equal", difference="bits equal in 3 tensors"), "equal", 0),
        (run(DROP, fired(), trace="equal"), "equal", 0),
        (run(DROP, fired(), ends={"a": raised("RuntimeError"), "b": RETURNED}), "clean error", 0),
        (run(CRASH, fired(), ends={"a": raised("x.PeerLost", "RuntimeError"), "b": KILLED}), "clean error", 0),
        (run(RAISE, fired(), ends={"a": raised("KeyError", says="injected"), "b": RETURNED}), "clean error", 0),
        (run(trace="wrong", difference="1 ULPs"), "wrong", 1),
        (run(ends={"a": OVERDUE, "b": RETURNED}), "hung", 1),
        (run(DROP), "not fired", 1),
        (run(leaks=["a still runs (process 1)"]), "leaked", 1),
        (run(trace="unknown", difference="nobody knows"), "unknown", 3),
        (run(complete=False, ends={}), "unknown", 3),
        (run(torn={"a": 1}), "unknown", 3),
    ],
)
def test_each_run_has_its_verdict(found: Run, verdict: str, status: int) -> None:
    judgement = judge(found)
    assert (judgement.verdict, judgement.status) == (verdict, status), str(judgement)


def test_several_defects_are_named_by_the_worst() -> None:
    """'hung' is worse than 'wrong', and so on. One defect decides, whatever else is unknown."""
    everything = run(DROP, trace="wrong", leaks=["x"], ends={"a": OVERDUE, "b": RETURNED}, torn={"b": 2})
    assert judge(everything).verdict == "hung"
    assert judge(replace(everything, ends={"a": RETURNED, "b": RETURNED})).verdict == "wrong"
    assert judge(run(DROP, leaks=["x"])).verdict == "leaked"


class Counted(dict[str, Any]):
    """An event's details that count in ``looks`` how often any of them is read."""

    looks = 0

    def get(self, *arguments: Any) -> Any:
        Counted.looks += 1
        return super().get(*arguments)

    def __getitem__(self, name: str) -> Any:
        Counted.looks += 1
        return super().__getitem__(name)


def looks(plan: str, count: int) -> int:
    """Count how often a judgement reads events, for ``count`` calls with faults."""
    events = []
    for nth in range(1, count + 1):
        details = {"site": "shop:pay", "nth": nth, "caller": "a", "fault": 0, "faults": [0]}
        for kind, role in (("invoke", "a"), ("fired", "b"), ("effective", "b"), ("fail", "a"), ("ok", "b")):
            events.append(Event(role, kind, 1.0, Counted(details)))
    before = Counted.looks
    judge(run(plan, *events))
    return Counted.looks - before


@pytest.mark.parametrize("kind", ["Delay every=true seconds=0.5 side=reply", "Drop every=true side=reply"])
def test_a_judgement_takes_time_by_the_number_of_events(kind: str) -> None:
    """A plan whose faults hit many thousand calls is judged in seconds."""
    plan = f"{kind} site=shop:pay"
    assert looks(plan, 400) < 3 * looks(plan, 200)


def test_every_check_says_in_one_line_what_was_seen() -> None:
    for found in (run(), run(DROP, fired(), trace="equal"), run(CRASH, ends={"a": OVERDUE, "b": KILLED})):
        for each in judge(found).checks:
            assert len(each.text) > 0
            assert "\n" not in str(each)
            assert str(each).startswith(("pass", "FAIL", "unknown"))
    assert str(judge(run())).splitlines()[-1] == "verdict: returned"


class TestRecord:
    def test_the_torn_line_of_who_was_killed_is_no_harm(self) -> None:
        ends = {"a": raised("RuntimeError"), "b": KILLED}
        assert check("record", run(CRASH, fired(), ends=ends, torn={"b": 1})).holds is True
        assert check("record", run(CRASH, fired(), ends=ends, torn={"b": 2})).holds is None
        assert check("record", run(CRASH, fired(), ends=ends, torn={"a": 1})).text == "a: torn lines: 1"

    def test_a_missing_ledger_makes_the_record_unknown(self) -> None:
        found = run(DROP, fired())
        missing = replace(found, ends={**found.ends, "c": RETURNED})
        assert (check("record", missing).holds, check("record", missing).text) == (None, "c: no ledger")
        assert check("record", replace(missing, plan=Plan())).holds is True  # nothing planned, nothing written
        assert check("record", replace(found, ends={**found.ends, "+command": RETURNED})).holds is True

    def test_a_role_of_its_world_that_the_plan_did_not_reach_is_missing(self) -> None:
        up = Event("a", "up", 0.5, {"workers": ["a", "b", "c"]})
        found = check("record", run("seed=0", up))
        assert (found.holds, found.text) == (None, "c: no ledger")
        assert judge(run("seed=0", up)).verdict == "unknown"

    def test_a_ledger_of_two_runs_makes_the_record_unknown(self) -> None:
        """A later run wrote into a folder with a record; or there is no record."""
        later = Event("a", "start", 9.0, {"pid": 3})
        assert check("record", run("seed=0", later, seconds=8.0)).text == "a: one ledger of 2 runs"
        assert check("record", run("seed=0", later, seconds=8.0)).holds is None
        assert check("record", run("seed=0", later, complete=False)).text.startswith(
            "a: one ledger of 2 runs, no run.json"
        )

    def test_a_role_that_a_program_plays_twice_is_one_run(self) -> None:
        again = replace(STARTS[0], time=3.0)
        assert check("record", run("seed=0", again, seconds=8.0)).holds is True
        assert "2 runs" not in check("record", run("seed=0", again, complete=False)).text

    def test_a_run_without_ends_is_unknown(self) -> None:
        assert judge(run(ends={})).verdict == "unknown"


class TestEnds:
    def test_a_role_that_outlives_a_command_that_was_killed_is_unknown(self) -> None:
        """The role was not waited for, so it may wait forever."""
        running = End("Running", "still ran when the command had ended", 101.0)
        killed = {"a": KILLED, "+command": KILLED}
        found = run("Crash role=a at=up@a", crashed("a"), ends={"b": running, **killed})
        assert judge(found).verdict == "unknown"
        assert check("ends", found).text.startswith("b still ran when the command had ended, and was not waited for")
        assert judge(replace(found, ends={"b": RETURNED, **killed})).verdict == "clean error"

    def test_a_role_that_still_runs_when_a_command_misses_its_deadline_is_named(self) -> None:
        running = End("Running", "still ran when the command had ended", 160.0)
        found = run(ends={"a": RETURNED, "b": running, "+command": OVERDUE})
        assert judge(found).verdict == "hung"
        assert check("ends", found).text.startswith("+command missed the deadline while b still ran, wanted")

    def test_a_role_that_was_given_up_before_the_deadline_has_not_missed_it(self) -> None:
        given_up = replace(OVERDUE, text="was stopped, and was ended after 10 s")
        text = check("ends", run(ends={"a": given_up, "b": OVERDUE, "c": OVERDUE})).text
        assert text.startswith("b, c missed the deadline; a was stopped, and was ended after 10 s, wanted")


class TestBound:
    def ends(self, time: float) -> dict[str, End]:
        return {"a": raised("RuntimeError", time=time), "b": KILLED}

    def test_the_bound_is_counted_from_the_first_fault(self) -> None:
        """It fired at 1 s of the timeline, 101 on the clock; the bound is 5 s."""
        assert check("bound", run(CRASH, fired(), ends=self.ends(106.0))).holds is True
        late = check("bound", run(CRASH, fired(), ends=self.ends(106.1)))
        assert late.holds is False
        assert late.text == "a was the last to end, 5.1 s after the first fault, wanted at most 5.0"
        assert judge(run(CRASH, fired(), ends=self.ends(106.1))).verdict == "hung"

    def test_the_seconds_of_a_fault_are_added_to_the_bound(self) -> None:
        delay = "Delay site=shop:pay role=a side=reply seconds=3"
        assert check("bound", run(delay, fired(), ends=self.ends(108.9))).holds is True
        assert check("bound", run(delay, fired(), ends=self.ends(109.1))).holds is False

    def test_a_run_that_returns_has_no_bound(self) -> None:
        slow = {"a": replace(RETURNED, time=1e6), "b": RETURNED}
        assert check("bound", run(DROP, fired(), ends=slow)).holds is True


class TestTrace:
    def test_only_the_twins_trace_is_right(self) -> None:
        assert check("trace", run(trace="equal", difference="bits equal")).holds is True
        wrong = check("trace", run(trace="wrong", difference="1 ULPs in weight"))
        assert (wrong.holds, wrong.text) == (False, "1 ULPs in weight")

    def test_a_run_without_a_trace_is_not_wrong(self) -> None:
        assert check("trace", run()).holds is True

    def test_a_trace_that_cannot_be_judged_is_unknown(self) -> None:
        assert check("trace", run(trace="unknown", difference="refused")).holds is None


class TestErrors:
    @pytest.mark.parametrize("bases", [("AttributeError", "Exception"), ("KeyError", "LookupError"), ("x.Odd",)])
    def test_an_error_that_does_not_come_from_the_plan_is_wrong(self, bases: tuple[str, ...]) -> None:
        found = run(DROP, fired(), ends={"a": raised(*bases, says="no"), "b": RETURNED})
        assert judge(found).verdict == "wrong"
        assert f"a raised {bases[0]}" in check("errors", found).text

    def test_an_unplanned_death_is_wrong(self) -> None:
        assert judge(run(DROP, fired(), ends={"a": RETURNED, "b": KILLED})).verdict == "wrong"
        assert judge(run(CRASH, fired(role="a"), ends={"a": RETURNED, "b": KILLED})).verdict == "wrong"

    def test_a_process_fault_kills_the_role_that_it_names(self) -> None:
        plan = "Crash role=b at=step:1@a"
        ends = {"a": raised("RuntimeError"), "b": KILLED}
        assert judge(run(plan, fired(role="a"), ends=ends)).verdict == "clean error"
        assert judge(run(plan, fired(role="a"), ends={"a": KILLED, "b": RETURNED})).verdict == "wrong"

    def test_an_exit_status_of_a_launched_role_is_wrong_and_of_a_command_unknown_after_a_fault(self) -> None:
        """A launched role's status is never right. A command's status without a reason is unknown once a fault has
        fired."""
        exited = End("Exited", "exited with status 1", 102.0)
        assert judge(run(DROP, fired(), ends={"a": exited, "b": RETURNED})).verdict == "wrong"
        assert judge(run(DROP, fired(), ends={"+command": exited})).verdict == "unknown"
        assert judge(run("seed=0", ends={"+command": exited})).verdict == "wrong"

    @pytest.mark.parametrize(("kind", "verdict"), [("Exited", "unknown"), ("Vanished", "clean error")])
    def test_a_status_without_an_error_is_not_excused_by_the_call_that_failed_before(
        self, kind: str, verdict: str
    ) -> None:
        """The program may have recovered from that call, and then found a wrong result of its own. A role that only
        leaves reports no result."""
        lost = Event(
            "a", "info", 1.5, {"site": "shop:pay", "nth": 1, "causes": told("a", "RuntimeError").details["causes"]}
        )
        ends = {"a": End(kind, "exited with status 1", 102.0), "b": RETURNED, "+command": RETURNED}
        assert judge(run(DROP, fired(), lost, ends=ends)).verdict == verdict
        handled = replace(ends["a"], causes=tuple(from_json(lost.details["causes"])))
        assert judge(run(DROP, fired(), lost, ends={**ends, "a": handled})).verdict == "clean error"

    def test_a_role_that_leaves_without_a_failed_call_is_wrong(self) -> None:
        """After an earlier failed call it is unknown: the role may have reported that, and then left."""
        lost = told("a", "RuntimeError").details["causes"]
        calls = (
            Event("a", "info", 1.5, {"site": "shop:pay", "nth": 1, "causes": lost}),
            Event("a", "ok", 1.6, {"site": "shop:report", "nth": 1}),
        )
        ends = {"a": End("Vanished", "left", 102.0), "b": RETURNED, "+command": RETURNED}
        assert judge(run(DROP, fired(), calls[1], ends=ends)).verdict == "wrong"
        assert judge(run(DROP, fired(), *calls, ends=ends)).verdict == "unknown"
        assert judge(run(DROP, fired(), calls[0], ends=ends)).verdict == "clean error"

    def test_the_error_that_ended_a_process_of_a_script_is_judged(self) -> None:
        """The status alone does not tell. A process that plays no role may only report the failure of a role."""
        failed = End("Exited", "exited with status 1", 102.0)

        def verdict(plan: str, bases: dict[str, str], end: End = failed) -> str:
            raised = [told(role, each, "injected" if each == "KeyError" else TIMED_OUT) for role, each in bases.items()]
            return judge(run(plan, fired(), *raised, ends={"+command": end})).verdict

        assert verdict(DROP, {"a": "AssertionError"}) == "wrong"
        assert verdict(DROP, {"a": "RuntimeError"}) == "clean error"
        assert verdict(RAISE, {"a": "KeyError"}) == "clean error"
        assert verdict(DROP, {"+command": "AssertionError"}) == "wrong"
        assert verdict(DROP, {"+command": "AssertionError", "a": "RuntimeError"}) == "clean error"
        assert verdict(DROP, {"a": "AssertionError"}, RETURNED) == "wrong"
        assert verdict(DROP, {"+command": "AssertionError"}, RETURNED) == "returned"

    @pytest.mark.parametrize(
        ("bases", "states", "verdict"),
        [
            (("AssertionError", "Exception"), False, "clean error"),
            (("RuntimeError", "Exception"), True, "clean error"),
            (("TrainingFailed", "ValueError", "Exception"), True, "clean error"),
            (("ProcessRaisedException", "ProcessException", "Exception"), False, "clean error"),
            (("BrokenProcessPool", "BrokenExecutor", "RuntimeError", "Exception"), False, "clean error"),
            (("EOFError", "Exception"), False, "unknown"),
            (("RuntimeError", "Exception"), False, "unknown"),
            (("FileNotFoundError", "OSError", "Exception"), False, "unknown"),
            (("ValueError", "Exception"), True, "clean error"),
            (("ValueError", "Exception"), False, "unknown"),
            (("NameError", "Exception"), False, "wrong"),
            (("KeyError", "LookupError", "Exception"), True, "wrong"),
            (("ZeroDivisionError", "ArithmeticError", "Exception"), False, "wrong"),
            (("ModuleNotFoundError", "ImportError", "Exception"), False, "wrong"),
        ],
        ids=str,
    )
    def test_a_launchers_own_mistake_is_wrong_though_a_role_has_failed(
        self, bases: tuple[str, ...], states: bool, verdict: str
    ) -> None:
        """The launcher plays no role; a role that the plan killed is judged separately."""
        causes = [{"bases": bases, "text": "3 of 4", "place": "launch.py:7", "raised": states}]
        error = Event("+command", "raised", 2.0, {"error": f"{bases[0]}: 3 of 4", "causes": causes})
        ends = {"a": RETURNED, "b": KILLED, "+command": End("Exited", "exited with status 1", 103.0)}
        assert judge(run(CRASH, fired(), error, ends=ends)).verdict == verdict
        passed_on = {**error.details, "causes": [*causes, {"bases": ["RuntimeError"], "text": TIMED_OUT}]}
        assert judge(run(CRASH, fired(), replace(error, details=passed_on), ends=ends)).verdict == "clean error"

    @pytest.mark.parametrize(("role", "verdict"), [("b", "clean error"), ("a", "wrong")])
    def test_a_victim_that_its_pool_has_ended_too_was_killed_by_the_plan(self, role: str, verdict: str) -> None:
        """A pool that loses one process asks all of them to end, that one included."""
        ended = End("Ended", "was ended by its own program", 101.0)
        command = {"+command": RETURNED}
        found = run(CRASH, fired(), ends={"a": RETURNED, "b": RETURNED, role: ended, **command})
        assert judge(found).verdict == verdict

    def test_a_role_ended_in_a_call_with_a_fault_is_excused_only_if_another_failed(self) -> None:
        """Its program may have timed out, or may end its roles in any case."""
        stuck = End("Stuck", "was ended by its own program during a call that a fault had hit", 102.0)
        ends = {"a": stuck, "b": RETURNED, "+command": RETURNED}
        assert judge(run(DROP, fired(), ends=ends)).verdict == "unknown"
        assert judge(run(DROP, fired(), ends={**ends, "b": raised("RuntimeError")})).verdict == "clean error"

    @pytest.mark.parametrize(("status", "verdict"), [("", "unknown"), (TIMED_OUT, "clean error")])
    def test_a_role_ended_after_an_undecided_failure_is_undecided_too(self, status: str, verdict: str) -> None:
        """A launcher ends all roles when one exits with a status, so they are judged as that role is."""
        causes = tuple(from_json(told("b", "RuntimeError", status).details["causes"])) if status else ()
        exited = End("Exited", "exited with status 1", 101.5, causes=causes)
        ended = End("Ended", "was ended by its own program", 102.0)
        found = run(DROP, fired(), ends={"a": ended, "b": exited, "+command": replace(exited, causes=())})
        assert judge(found).verdict == verdict
        if verdict == "unknown":
            text = "b exited with status 1; a was ended by its own program: the ledgers do not tell"
            assert check("errors", found).text.startswith(text)  # the failure that the others follow comes first
        killed = replace(found, ends={**found.ends, "a": KILLED})
        assert judge(killed).verdict == "wrong"  # no role ends so because another one did

    @pytest.mark.parametrize(("killed", "verdict"), [(7, "clean error"), (8, "unknown")])
    def test_a_command_is_killed_by_the_plan_where_it_plays_the_victim(self, killed: int, verdict: str) -> None:
        """Otherwise it may have killed itself, because it lost the victim, or by a mistake."""
        ends = {
            "b": End("Killed", "was killed by a signal", 101.0, process=killed),
            "+command": End("Killed", str(Killed(9)), 102.0, process=7),
        }
        assert judge(run(CRASH, crashed(process=killed), ends=ends)).verdict == verdict

    @pytest.mark.parametrize(
        ("signal", "peer", "verdict"),
        [
            (6, raised("RuntimeError"), "unknown"),
            (6, raised("KeyError", says="no"), "wrong"),
            (6, RETURNED, "wrong"),
            (11, raised("RuntimeError"), "wrong"),
        ],
    )
    def test_a_survivor_that_is_aborted_after_an_excused_end_is_unknown(
        self, signal: int, peer: End, verdict: str
    ) -> None:
        """torch's threads may abort it: `terminate called after throwing an instance of`."""
        aborted = End("Killed", str(Killed(signal)), 102.5)
        assert judge(run(DROP, fired(), ends={"a": peer, "b": aborted})).verdict == verdict

    @pytest.mark.parametrize(
        ("via", "event", "text", "verdict"),
        [
            ("remote", "info", str(Killed(11)), "unknown"),
            ("remote", "info", str(Killed(6)), "unknown"),
            ("remote", "info", "was killed by a signal", "unknown"),
            ("remote", "info", str(Killed(9)), "wrong"),
            ("remote", "fail", str(Killed(11)), "wrong"),
            ("rpc", "info", str(Killed(11)), "wrong"),
        ],
    )
    @pytest.mark.parametrize("role", ["a", "+command"])
    def test_a_crash_after_a_lost_rref_may_be_torchs(
        self, role: str, via: str, event: str, text: str, verdict: str
    ) -> None:
        """Dropping an RRef whose `remote` has timed out corrupts the heap (docs/behaviours.md)."""
        told_causes = told("a", "RuntimeError").details["causes"]
        lost = Event("a", event, 1.5, {"site": "shop:pay", "nth": 1, "via": via, "causes": told_causes})
        ends = {"a": RETURNED, "b": RETURNED, role: End("Killed", text, 102.0)}
        assert judge(run(DROP, fired(), lost, ends=ends)).verdict == verdict

    def test_a_script_that_torch_aborts_while_python_ends_is_judged_by_its_error(self) -> None:
        """After an uncaught error the error counts. Without one, or by another signal, it is a death."""

        def verdict(signal: int, *raised: str) -> str:
            events = [told("a", each) for each in raised]
            ends = {"+command": End("Killed", str(Killed(signal)), 102.0)}
            return judge(run(DROP, fired(), *events, ends=ends)).verdict

        assert verdict(6, "RuntimeError") == "clean error"
        assert verdict(6, "AssertionError") == "wrong"
        assert verdict(6) == "wrong"
        assert verdict(9, "RuntimeError") == "wrong"

    @pytest.mark.parametrize(
        ("says", "how", "holds"),
        [
            ("SystemExit: 3", "how=term", None),
            ("asked: SystemExit: 3", "how=term", False),
            ("shop.Closed_Error: now", "how=term", None),
            ("KeyError: 'size'", "how=term", False),
            ("AssertionError", "how=term", False),
            ("size mismatch", "how=term", False),
            ("SystemExit: 3", "", False),
        ],
    )
    def test_torch_may_make_an_error_of_what_a_handler_of_sigterm_raises(
        self, says: str, how: str, holds: bool | None
    ) -> None:
        plan = f"Crash site=shop:pay role=a nth=1 when=before {how}"
        causes = (Piece(("RuntimeError",), says, place="shop.py:7"),)
        ends = {"a": RETURNED, "b": replace(raised("RuntimeError", says=says), causes=causes)}
        assert check("errors", run(plan, crashed(), effective(), ends=ends)).holds is holds


class TestLeft:
    def left(self, **counts: int) -> Event:
        return Event("b", "left", 2.0, {"num_owner_rrefs": 0, "num_pending_users": 0, **counts})

    def test_rrefs_and_contexts_count_if_all_roles_returned(self) -> None:
        assert check("left", run("seed=0", self.left())).holds is True
        found = run(DROP, fired(), self.left(num_owner_rrefs=2), trace="equal")
        assert (judge(found).verdict, check("left", found).text) == ("leaked", "b: num_owner_rrefs=2")

    def test_a_message_that_is_still_to_be_answered_is_not_left(self) -> None:
        assert check("left", run(DROP, fired(), self.left(num_pending_futures=1), trace="equal")).text == "nothing"

    def test_a_run_that_failed_may_leave_rrefs_and_contexts(self) -> None:
        ends = {"a": raised("RuntimeError"), "b": RETURNED}
        assert judge(run(DROP, fired(), self.left(num_owner_rrefs=2), ends=ends)).verdict == "clean error"


class TestFired:
    def test_a_fault_of_one_named_call_fires_exactly_once(self) -> None:
        assert check("fired", run(DROP, fired())).holds is True
        twice = check("fired", run(DROP, fired(), fired()))
        assert (twice.holds, twice.text) == (
            False,
            f"{DROP} fired 2 times, wanted 1 (recorded calls of this site: none)",
        )

    def test_a_fault_fires_once_per_start_of_rpc(self) -> None:
        again = replace(STARTS[0], time=3.0)
        assert check("fired", run(DROP, fired(), again, fired(), seconds=5.0)).holds is True
        assert check("fired", run(DROP, fired(), replace(STARTS[1], time=3.0), fired(), seconds=5.0)).holds is False

    @pytest.mark.parametrize("occurrence", ["every=true", "chance_percent=50", "nth=1"])
    def test_a_fault_of_several_calls_fires_at_least_once(self, occurrence: str) -> None:
        plan = f"Drop site=shop:pay {occurrence} side=reply"
        assert check("fired", run(plan, fired(), fired())).holds is True
        assert check("fired", run(plan)).holds is False

    def test_a_fault_fires_in_every_call_that_it_hit_if_no_role_died(self) -> None:
        """Callers record the calls that they send with faults. A callee that fires in one of two has lost the other."""
        plan = "Drop site=shop:pay every=true side=reply"
        sent = Event("a", "invoke", 1.0, {"site": "shop:pay", "nth": 1, "faults": [0]})
        assert check("fired", run(plan, sent, sent, fired(), fired())).holds is True
        lost = check("fired", run(plan, sent, sent, fired()))
        assert (lost.holds, lost.text) == (False, f"{plan} fired 1 times, wanted 2: the calls that it hit")
        died = {"a": RETURNED, "b": KILLED}
        assert check("fired", run(plan, sent, sent, fired(), ends=died)).holds is True

    def test_each_of_several_faults_has_to_fire(self) -> None:
        plan = f"{DROP}; {CRASH}"
        assert check("fired", run(plan, fired(0), fired(1))).holds is True
        assert check("fired", run(plan, fired(1))).text.startswith(f"{DROP} fired 0 times, wanted 1 (")

    def test_without_a_start_of_rpc_firing_is_unknown(self) -> None:
        """The program may not use RPC, or the plan did not reach it. A role that started RPC was reached."""
        found = run(DROP)
        without = replace(found, timeline=replace(found.timeline, events=STARTS))
        assert check("fired", without).holds is None
        assert (judge(without).verdict, judge(without).status) == ("unknown", 3)
        assert judge(found).verdict == "not fired"

    def test_events_of_faults_that_are_not_in_the_plan_count_for_nothing(self) -> None:
        assert check("fired", run(DROP, fired(7))).holds is False

    def test_the_reason_why_a_fault_could_not_fire_is_said(self) -> None:
        plan = "Pause role=c at=up@a seconds=1.0"
        failed = Event("a", "failed", 1.0, {"fault": 0, "why": "c has no process here"})
        assert check("fired", run(plan, failed)).text == f"{plan} fired 0 times, wanted 1 (c has no process here)"


class TestEffect:
    @pytest.mark.parametrize("plan", [DROP, RAISE, CRASH])
    def test_a_dropped_call_that_is_answered_had_no_effect(self, plan: str) -> None:
        ends = {"a": RETURNED, "b": KILLED if plan == CRASH else RETURNED}
        assert check("effect", run(plan, fired(), ends=ends)).holds is True
        assert check("effect", run(plan, fired(), answered(nth=2), answered("b"), ends=ends)).holds is True
        found = run(plan, fired(), answered(), ends=ends)
        assert check("effect", found).text == f"{Plan.parse(plan)} fired, but a got an answer nevertheless"
        assert judge(found).verdict == "not fired"

    def test_a_remote_value_that_was_refused_is_there_to_be_fetched(self) -> None:
        there = Event("a", "ok", 2.0, {"site": "shop:pay", "nth": 1, "via": "remote"})
        assert check("effect", run(RAISE, fired(), there)).holds is True
        assert check("effect", run(DROP, fired(), there)).holds is False

    @pytest.mark.parametrize(
        ("plan", "seen"),
        [
            ("Delay site=shop:pay role=a nth=1 side=reply seconds=0.5", "no role saw an effect"),
            ("Duplicate site=shop:pay role=a nth=1", "no role saw an effect"),
            ("Pause role=b at=up@a seconds=0.5", "no role saw an effect"),
            ("Partition role=b at=up@a direction=both", "hit no packet"),
        ],
    )
    def test_a_fault_with_a_receipt_needs_it(self, plan: str, seen: str) -> None:
        assert check("effect", run(plan, fired(), effective())).holds is True
        assert check("effect", run(plan, fired(), effective(1))).text == f"{Plan.parse(plan)} fired, but {seen}"
        assert judge(run(plan, fired())).verdict == "not fired"

    def test_a_delay_that_its_caller_gives_up_has_had_its_effect(self) -> None:
        """The callee may have ended before the delay is over."""
        plan = "Delay site=shop:pay role=a nth=1 side=request seconds=50"
        late = Event("a", "info", 2.0, {"site": "shop:pay", "nth": 1, "error": f"RuntimeError: {TIMED_OUT}"})
        assert check("effect", run(plan, fired(), late)).holds is True
        assert check("effect", run(plan, fired(), replace(late, role="b"))).holds is False

    @pytest.mark.parametrize(
        ("ended", "seen"), [(["info"], True), (["ok"], False), ([], False), (["info", "ok"], False)], ids=str
    )
    def test_a_call_in_flight_has_to_fail_at_its_caller(self, ended: list[str], seen: bool) -> None:
        """The second of its two calls is ``ended[1]``. The callee has executed, as its `fired` says."""
        calls = [(event, nth) for nth, end in enumerate(ended, 1) for event in ("invoke", end)]
        told = [Event("a", event, 1.0, {"site": "shop:pay", "nth": nth, "faults": [0]}) for event, nth in calls]
        found = run("Raise site=shop:pay role=a every=true side=flight", fired(), *told)
        assert check("effect", found).holds is seen

    @pytest.mark.parametrize(("caller", "seen"), [(RETURNED, False), (raised("RuntimeError"), True)], ids=str)
    def test_a_caller_that_ends_by_a_call_in_flight_may_not_record_its_end(self, caller: End, seen: bool) -> None:
        told = Event("a", "invoke", 1.0, {"site": "shop:pay", "nth": 1, "faults": [0]})
        plan = "Raise site=shop:pay role=a side=flight"
        assert check("effect", run(plan, fired(), told, ends={"a": caller, "b": RETURNED})).holds is seen
        answered = Event("a", "ok", 2.0, {"site": "shop:pay", "nth": 1})
        assert check("effect", run(plan, fired(), told, answered, ends={"a": caller, "b": RETURNED})).holds is False

    @pytest.mark.parametrize(
        ("end", "seen"),
        [(RETURNED, False), (raised("RuntimeError"), True), (VANISHED, True), (OVERDUE, False)],
        ids=str,
    )
    @pytest.mark.parametrize("pid", [{}, {"pid": 7}, {"pid": 8}], ids=["call", "itself", "another"])
    def test_a_process_that_its_handler_of_sigterm_ends_may_not_say_so(
        self, pid: dict[str, int], end: End, *, seen: bool
    ) -> None:
        """Its RPC thread, or the one that announces, may never run again. Another process that sends it can say so."""
        plan = "Crash role=b at=up@b how=term" if pid else "Crash site=shop:pay role=a nth=1 when=before how=term"
        asked = replace(fired(), details={**fired().details, **pid}, process=7)
        found = check("effect", run(plan, asked, ends={"a": RETURNED, "b": end}))
        assert found.holds is (seen and pid != {"pid": 8})

    @pytest.mark.parametrize(("end", "seen"), [(RETURNED, False), (KILLED, True), (OVERDUE, False)], ids=str)
    def test_a_role_that_ends_while_it_is_held_cannot_say_so(self, end: End, seen: bool) -> None:
        """It is held until 102 s. It was killed after 101 s, or missed its deadline after 160 s."""
        found = run("Hold role=b at=up@a seconds=1", fired(role="a"), ends={"a": RETURNED, "b": end})
        assert check("effect", found).holds is seen
        told = run("Hold role=b at=up@a seconds=1", fired(role="a"), effective(), ends={"a": RETURNED, "b": end})
        assert check("effect", told).holds is True

    def test_a_role_that_kills_itself_needs_no_effect_event(self) -> None:
        plan, ends = "Crash role=a at=up@a", {"a": KILLED, "b": raised("RuntimeError")}
        assert check("effect", run(plan, fired(role="a"), ends=ends)).holds is True
        assert check("effect", run(plan, fired(role="a"))).holds is False


def test_the_checks_cannot_be_dropped_unnoticed() -> None:
    """Each check fails some run of this file."""
    assert [each.__name__ for each in checks.CHECKS] == [
        "ledgers_complete",
        "ended",
        "ended_in_time",
        "trace_equal",
        "errors_expected",
        "nothing_left",
        "fired",
        "faults_effective",
    ]
