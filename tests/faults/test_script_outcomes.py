"""The ledgers tell how the roles of a script ended: in order, lost, or by their own program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from faults.ledger import Event, Timeline
from faults.ledger.record import End, Run
from faults.plan import Plan
from faults.verdict.checks import judge
from faults.verdict.failures import COMMAND
from faults.verdict.script_outcomes import Known, fates, lives, of_lives


def life(role: str, *events: str, pid: int = 1, at: float = 0.0, **details: Any) -> list[Event]:
    """Make one start of RPC in one process, and its events, each a second later; ``details`` by event."""
    names = ["start", *events]
    return [
        Event(
            role,
            name,
            at + n,
            {"pid": pid, **details.get(name, {})} if name in ("start", "exit") else details.get(name, {}),
            pid,
        )
        for n, name in enumerate(names)
    ]


WHOLE = ("up", "shutdown", "left", "exit")
RUDE = {"shutdown": {"graceful": False}}
OTHER = life("shop", *WHOLE, pid=9)


def end(*events: list[Event], **known: Any) -> tuple[str, str]:
    every = [event for each in events for event in each]
    roles = tuple(dict.fromkeys(event.role for event in every))
    asked = dict.fromkeys(known.pop("asked", ()), 0.0)
    found = fates(Timeline(tuple(sorted(every, key=lambda e: e.time)), {}, roles, 100.0), Known(asked, **known))
    return found["till"].kind, found["till"].text


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        (life("till", *WHOLE), "Returned"),
        (life("till", "up", "shutdown", "left"), "Killed"),
        (life("till", "up"), "Killed"),
        (life("till"), "Killed"),
        (life("till", "up", "exit"), "Vanished"),
        (life("till", "exit"), "Returned"),
        (life("till", *WHOLE, exit={"status": 3}), "Exited"),
        (life("till", *WHOLE, exit={"status": 0}), "Returned"),
        (
            life("till", "up", "raised", "exit", raised={"bases": ["RuntimeError"], "error": "RuntimeError: eof"}),
            "Raised",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(event.event for event in value),
)
def test_a_role_that_misses_a_shutdown_of_all_has_vanished(events: list[Event], kind: str) -> None:
    assert end(events, OTHER)[0] == kind


@pytest.mark.parametrize("other", [life("shop", "up", "exit", pid=9), life("shop", *WHOLE, pid=9, **RUDE)])
def test_without_a_shutdown_of_all_any_orderly_end_is_enough(other: list[Event]) -> None:
    assert end(life("till", "up", "exit"), other)[0] == "Returned"
    assert end(life("till", "up"), other)[0] == "Killed"
    assert end(life("till", "up"), other, asked={1})[0] == "Returned"


def test_a_process_that_could_not_become_another_program_has_not_ended() -> None:
    assert end(life("till", *WHOLE, "stayed"))[0] == "Killed"
    assert end(life("till", *WHOLE, "stayed", "exit"))[0] == "Returned"


def test_a_role_ended_by_its_own_program_has_not_ended_by_itself() -> None:
    assert end(life("till", "up"), OTHER, asked={1}) == ("Ended", "was ended by its own program")
    assert end(life("till", "up", "shutdown"), OTHER, asked={1})[0] == "Ended"
    assert end(life("till", "up", "shutdown", "left"), OTHER, asked={1})[0] == "Returned"
    assert end(life("till", "up"), OTHER, running={1})[0] == "Running"


@pytest.mark.parametrize("how", [{}, {"how": "exit:3"}, {"how": "segv"}])
def test_a_role_that_dies_by_the_plan_is_not_ended_by_its_program(how: dict[str, str]) -> None:
    """`mp.spawn` sends SIGTERM to all children that still run; the kernel takes its time to end a killed one."""
    crash = {"fired": {"fault": 0, "kind": "Crash", **how}}
    killed = (*life("till", "up", "fired", **crash), *OTHER)
    timeline = Timeline(killed, {}, ("till", "shop"), 100.0)
    assert fates(timeline, Known({1: 102.1}))["till"].kind == "Killed"
    assert fates(timeline, Known({1: 101.995}))["till"].kind == "Killed"  # the time of the kernel's last tick
    assert fates(timeline, Known({1: 101.5}))["till"] == End("Ended", "was ended by its own program", 102.0, process=1)


def test_a_program_may_end_a_role_that_the_plan_did_not_kill() -> None:
    crash = {"fired": {"fault": 0, "kind": "Crash", "pid": 9}}
    timeline = Timeline((*life("till", "up", "fired", **crash), *OTHER), {}, ("till", "shop"), 100.0)
    assert fates(timeline, Known({1: 105.0}))["till"].kind == "Ended"


CALL = {"site": "shop:pay", "nth": 1}
FAULTY_CALL = {"invoke": {**CALL, "faults": [0]}, "ok": CALL, "info": CALL}
STUCK = ("Stuck", "was ended by its own program during a call that a fault had hit")


def test_a_role_ended_in_a_call_with_a_fault_has_not_returned() -> None:
    """If all roles hang, none shuts RPC down."""
    assert end(life("till", "up", "invoke", **FAULTY_CALL), asked={1}) == STUCK
    assert end(life("till", "up", "invoke", **FAULTY_CALL), OTHER, asked={1}) == STUCK
    assert end(life("till", "up", "invoke", "interrupted", "exit", **FAULTY_CALL)) == STUCK
    assert (
        end(life("till", "up", "invoke", "exit", **FAULTY_CALL), asked={1}) == STUCK
    )  # its SIGTERM handler exits with 0
    assert end(life("till", "up", "invoke", "ok", **FAULTY_CALL), asked={1})[0] == "Returned"
    assert end(life("till", "up", "invoke", "info", **FAULTY_CALL), asked={1})[0] == "Returned"
    assert end(life("till", "up", "invoke", invoke=CALL), asked={1})[0] == "Returned"  # a call that no fault hit
    assert end(life("till", *WHOLE[:-1], **FAULTY_CALL), asked={1})[0] == "Returned"
    assert end(life("till", "up", "invoke", "shutdown", "left", **FAULTY_CALL), asked={1})[0] == "Returned"
    assert end(life("till", "up", "invoke", "exit", **FAULTY_CALL))[0] == "Returned"  # it ended by itself


def test_a_status_within_a_handler_comes_from_the_handled_error() -> None:
    """This holds although the end of its last call is not recorded yet."""
    causes = [{"bases": ["RuntimeError"], "text": "eof"}]
    events = (*life("till", "up", "exit", exit={"status": 0, "causes": causes}), *OTHER)
    found = fates(Timeline(events, {}, ("till", "shop")))["till"]
    assert (found.kind, [each.text for each in found.causes]) == ("Vanished", ["eof"])


def test_status_0_while_an_error_passes_comes_from_that_error() -> None:
    """An example is ``finally: os._exit(0)``. In an `except` block the program would have handled the error."""
    causes = [{"bases": ["ValueError"], "text": "wrong sum"}]
    ends = []
    for handled in (True, None, False):
        told = {"status": 0, "final": True, "causes": causes, "handled": handled}
        events = (*life("till", *WHOLE, pid=4, exit=told), *OTHER)
        ends.append(fates(Timeline(events, {}, ("till", "shop")))["till"])
    assert [each.kind for each in ends] == ["Returned", "Returned", "Exited"]
    assert [[piece.text for piece in each.causes] for each in ends] == [[], ["wrong sum"], ["wrong sum"]]


def test_an_error_that_may_have_been_handled_is_kept() -> None:
    causes = [{"bases": ["ValueError"], "text": "wrong sum"}]
    for handled, verdict in ((None, "unknown"), (True, "returned"), (False, "wrong")):
        told = {"status": 0, "final": True, "causes": causes, "handled": handled}
        timeline = Timeline(tuple(life("till", *WHOLE, exit=told)), {}, ("till",))
        ends = {**fates(timeline), COMMAND: End("Returned", "returned", 8.0)}
        assert judge(Run("till", Plan(), timeline, ends, bound=60.0, seconds=60.0)).verdict == verdict


def test_a_role_of_two_worlds_needs_both() -> None:
    """The role has one process, or two. The worse end counts, and each world is judged separately."""
    first, again = life("till", "up", "shutdown", "left"), life("till", *WHOLE, at=20)
    assert end(first, again)[0] == "Returned"
    assert end(first, life("till", *WHOLE, at=20, pid=2))[0] == "Killed"
    assert end(life("till", *WHOLE), life("till", "up", at=20, pid=2))[0] == "Killed"
    assert end(life("till", "up"), again, OTHER)[0] == "Vanished"
    assert end(first, life("baker", *WHOLE, at=20))[0] == "Returned"  # the same process, under another name
    later = life("shop", *WHOLE, pid=9, at=20)
    assert end(life("till", "up", "exit"), life("till", *WHOLE, at=20, pid=2), later)[0] == "Returned"


def test_processes_without_a_role_have_no_life() -> None:
    events = tuple(life("+command", "raised"))
    assert lives(Timeline(events, {}, ("+command",))) == []


@pytest.mark.parametrize(("said", "status", "kind"), [(None, 3, "Exited"), (2, 0, "Returned"), (0, 1, "Exited")])
def test_the_status_of_the_process_counts_more_than_what_python_said(said: int | None, status: int, kind: str) -> None:
    """`SystemExit` may be raised without `sys.exit`, and the one that `sys.exit` raises may be caught."""
    assert end(life("till", *WHOLE, pid=4, exit={"status": said}), OTHER, statuses={4: status})[0] == kind


def test_a_process_without_a_status_was_killed_by_a_signal() -> None:
    """It may crash in another handler of `atexit`, or in a destructor, unless something else explains its end."""
    mine = life("till", *WHOLE, pid=4)
    assert end(mine, OTHER, silent={4}) == ("Killed", "was killed by a signal while Python ended")
    assert end(life("till", *WHOLE, pid=4, exit={"status": 0}), OTHER, silent={4})[0] == "Killed"
    for known in ({"asked": {4}}, {"running": {4}}, {"statuses": {4: 0}, "silent": ()}):
        assert end(mine, OTHER, **{"silent": {4}, **known})[0] == "Returned"
    by_os_exit = life("till", *WHOLE, pid=4, exit={"status": 0, "final": True})
    assert end(by_os_exit, OTHER, silent={4})[0] == "Returned"
    assert end(life("till", "up", "exit", pid=4), silent={4})[0] == "Returned"  # torch's threads may abort it
    again = life("baker", "up", "shutdown", "left", pid=4, at=20)
    assert end(life("till", *WHOLE[:-1], pid=4), again, OTHER, silent={4})[0] == "Returned"  # not its last life


class TestTwoWorldsAtOnce:
    """They have the same names, and one folder. Each process is judged by the events that it wrote itself."""

    FIRST = (*life("shop", *WHOLE, pid=1), *life("till", *WHOLE, pid=2))

    def test_each_process_has_its_own_end(self) -> None:
        second = [*life("shop", *WHOLE, pid=3, at=2), *life("till", *WHOLE, pid=4, at=2)]
        assert end([*self.FIRST, *second])[0] == "Returned"
        assert end([*self.FIRST, *life("till", *WHOLE, pid=4, at=0.5)])[0] == "Returned"

    @pytest.mark.parametrize(
        ("events", "kind"),
        [(("up", "exit"), "Vanished"), (("up", "shutdown"), "Killed"), (("up", "raised", "exit"), "Raised")],
    )
    def test_a_lost_process_counts_even_if_another_of_its_role_is_well(
        self, events: tuple[str, ...], kind: str
    ) -> None:
        lost = life("till", *events, pid=4, at=0.5, raised={"bases": ["OSError"], "error": "OSError: no"})
        assert end([*self.FIRST, *life("shop", *WHOLE, pid=3, at=0.5), *lost])[0] == kind

    def test_an_event_without_a_process_belongs_to_the_latest_start(self) -> None:
        """The ledger comes from an earlier version."""
        old = [replace(event, process=0) for event in (*life("till", "up", "exit"), *life("till", "up", at=20, pid=2))]
        assert [len(each.events) for each in lives(Timeline(tuple(old), {}, ("till",)))] == [3, 2]

    def test_an_event_of_a_forked_child_belongs_to_no_life(self) -> None:
        child = Event("till", "shutdown", 1.5, {}, 77)
        assert end([*life("shop", *WHOLE, pid=1), *life("till", "up", "exit", pid=2), child])[0] == "Vanished"

    @pytest.mark.parametrize(
        "known",
        [
            {"up": {"workers": ["clerk", "till"]}},
            {"start": {"world": "tcp://here:1"}},
        ],
    )
    def test_a_shutdown_in_another_world_does_not_count(self, known: dict[str, Any]) -> None:
        """The names in its world tell, or the place where it meets."""
        other = life("shop", *WHOLE, pid=9, up={"workers": ["shop", "till"]}, start={"world": "tcp://here:2"})
        mine = life("shop", "up", "exit", pid=3, **known)
        assert end(life("till", "up", "exit", pid=4, **known), [] if "up" in known else mine, other)[0] == "Returned"
        assert end(life("till", "up", "exit", pid=4), other)[0] == "Vanished"  # it may be of that world

    def test_an_unplanned_death_is_wrong_beside_a_planned_one(self) -> None:
        plan, fired = Plan.parse("Crash role=till at=up@till"), {"fault": 0, "kind": "Crash", "pid": 2}
        for pid, verdict in ((2, "clean error"), (4, "wrong")):
            events = (
                *life("till", "up", pid=2),
                Event("till", "fired", 1.5, fired, 2),
                *life("till", "up", pid=pid, at=5),
            )
            timeline = Timeline(events, {}, ("till",))
            run = Run("till", plan, timeline, fates(timeline), bound=60.0, seconds=60.0, lives=of_lives(timeline))
            assert judge(replace(run, ends={**run.ends, COMMAND: End("Returned", "returned", 8.0)})).verdict == verdict

    def test_an_unplanned_death_is_worse_than_a_planned_one(self) -> None:
        fired = Event("shop", "fired", 1.5, {}, 1)
        dead = [*life("till", "up", pid=4, at=-5), *life("till", "up", pid=2)]
        for planned, worst in ((2, 4), (4, 2)):
            crash = replace(fired, details={"kind": "Crash", "pid": planned})
            assert fates(Timeline((*dead, crash), {}, ("till",)))["till"].process == worst


def test_a_role_interrupted_from_outside_has_not_ended_by_itself() -> None:
    """SIGINT ends a process in order, with a status or without one."""
    assert end(life("till", "up", "interrupted", "exit"), OTHER) == ("Ended", "was ended by its own program")
    assert end(life("till", "up", "interrupted", "exit", exit={"status": 1}))[0] == "Returned"


def test_a_role_ended_by_its_program_ends_when_it_was_asked_to() -> None:
    timeline = Timeline(tuple(life("till", "up")), {}, ("till",), 100.0)
    assert fates(timeline, Known({1: 150.0}))["till"].time == 150.0
