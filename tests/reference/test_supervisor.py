"""Roles that do not answer are given up before their deadline: stuck in torch's start, or stopped."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reference.outcome import Outcome, Overdue, PeerLost, Raised, Returned, RoleFailed
from reference.world import World, launch
from reference.world.link import Phase
from reference.world.role_handle import RoleHandle
from reference.world.supervisor import LOOK_SECONDS, Grace, Supervisor
from tests.support import roles_grace, roles_plain

pytestmark = pytest.mark.usefixtures("forkserver")  # its start is no part of a deadline

# Far longer than any of these tests takes; a role that it ends is "overdue".
DEADLINE = 20
LOST = f"{PeerLost.__module__}.{PeerLost.__qualname__}"
A_AND_B = dict.fromkeys("ab", roles_plain.nothing)


def played(roles: dict[str, Any], **arguments: Any) -> dict[str, Outcome]:
    """Return how the roles end."""
    with launch(roles, **{"deadline": DEADLINE, **arguments}) as world:
        return world.wait()


def stacks(outcome: Outcome) -> str:
    assert isinstance(outcome, Overdue)
    return outcome.stacks


def test_a_role_that_is_stuck_in_torchs_start_is_ended_and_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them: in torch the constructor of the other one waits for its name, with Python's lock, at the store of
    the first role. If that one were asked first, and ended, the other one's constructor might fail before it is asked.
    """
    give_up, asked = RoleHandle.give_up, list[str]()

    def noted(handle: RoleHandle, why: str) -> None:
        asked.append(handle.name)
        give_up(handle, why)

    monkeypatch.setattr(RoleHandle, "give_up", noted)
    outcomes = played(A_AND_B, before=partial(roles_grace.a_is_stuck, tmp_path), grace=1)
    for outcome in outcomes.values():
        assert str(outcome) == "was stuck in the start of RPC, and was ended after 1 s"
        assert "in start_agent" in stacks(outcome), stacks(outcome)
    assert "in hold_the_gil" in stacks(outcomes["a"])
    assert asked == ["b", "a"]


def test_a_role_that_is_stuck_reads_no_call(tmp_path: Path) -> None:
    """It holds up its caller in the middle of sending, and not who watches it: half a grace later it is asked."""
    before = partial(roles_grace.a_is_stuck, tmp_path)
    stuck = pytest.raises(RoleFailed, match=r"^a was stuck in the start of RPC, and was ended after 3 s$")
    with launch(["a", "b"], before=before, grace=3, deadline=DEADLINE) as world, stuck:
        world.call("a", len, bytes(1 << 24))


def test_a_role_that_is_stuck_does_not_hear_of_a_loss(tmp_path: Path) -> None:
    before = partial(roles_grace.a_is_stuck_and_b_dies, tmp_path)
    outcomes = played(A_AND_B, before=before, grace=3)
    assert str(outcomes["a"]) == "was stuck: it did not hear that b was killed by SIGKILL, and was ended after 3 s"
    assert "in hold_the_gil" in stacks(outcomes["a"])


def test_a_starting_role_that_answers_is_not_stuck() -> None:
    outcomes = played(A_AND_B, before=roles_grace.a_waits_in_its_start, deadline=4, grace=1)
    assert str(outcomes["a"]) == "was overdue"


def test_a_start_in_which_all_roles_wait_for_each_other_ends_although_they_answer() -> None:
    """gloo's start does this if memory is so short that its connections are not made."""
    start = time.monotonic()
    outcomes = played(A_AND_B, before=roles_grace.waits_in_its_start, grace=1)  # in which a busy machine answers
    assert time.monotonic() - start < DEADLINE
    assert [*map(str, outcomes.values())] == ["was stuck in the start of RPC, and was ended after 6 s"] * 2


@pytest.mark.parametrize(("roles", "seconds"), [(1, 10), (50, 10), (256, 51.2)])
def test_many_roles_have_more_time(roles: int, seconds: float) -> None:
    handles: dict[str, Any] = dict.fromkeys(map(str, range(roles)))
    assert Supervisor(handles, None, 10)._grace.seconds == pytest.approx(seconds)


def test_a_role_that_has_not_begun_to_start_is_not_stuck_and_holds_up_no_other() -> None:
    outcomes = played(A_AND_B, before=partial(roles_grace.a_takes_its_time, 2), grace=0.5)
    assert outcomes == dict.fromkeys("ab", Returned(None))


def one_stops_and_one_fails(place: Path, stop: Callable[..., None]) -> dict[str, Any]:
    """The second role fails when the first one is stopped."""
    pid, plays = place / "pid", place / "plays"
    return {"a": partial(stop, pid, plays), "b": partial(roles_grace.play_and_fail, plays, pid)}


def test_a_stopped_role_is_ended_once_the_others_have_ended_or_wait(tmp_path: Path) -> None:
    roles = one_stops_and_one_fails(tmp_path, roles_grace.stop_for_good)
    outcomes = played({**roles, "c": roles_plain.nothing}, grace=1)
    assert str(outcomes["a"]) == "was stopped, while all others had ended or waited, and was ended after 1 s"
    assert "in stop_for_good" in stacks(outcomes["a"])
    assert "no complete" not in stacks(outcomes["a"])
    assert isinstance(outcomes["c"], Raised)
    assert outcomes["c"].type == LOST


def wait_until_failed(world: World, role: str) -> None:
    with suppress(ProcessLookupError):  # it has ended already
        process = os.pidfd_open(world.pids[role])
        try:
            assert select.select([process], [], [], 30)[0]
        finally:
            os.close(process)


def test_a_stopped_role_that_goes_on_within_the_grace_is_not_ended(tmp_path: Path) -> None:
    with launch(one_stops_and_one_fails(tmp_path, roles_grace.stop), deadline=DEADLINE, grace=30) as world:
        wait_until_failed(world, "b")
        os.kill(world.pids["a"], signal.SIGCONT)
        stopped = world.wait()["a"]
    assert isinstance(stopped, Raised)
    assert stopped.type == LOST
    assert stopped.message == "b raised tests.support.roles_plain.Unlucky: today"


@pytest.mark.long
@pytest.mark.parametrize("one_ends", [False, True])
def test_a_stopped_role_is_left_alone_while_others_may_go_on(one_ends: bool, tmp_path: Path) -> None:
    """No role has ended; or one has, and another one still plays."""
    pid, b, c = (tmp_path / name for name in ("pid", "b plays", "c plays"))
    roles: dict[str, Any] = {"a": partial(roles_grace.stop, pid, b), "b": b.touch}
    if one_ends:
        roles = {"a": partial(roles_grace.stop, pid, b, c), "b": partial(roles_grace.play_and_fail, b, pid)}
        roles["c"] = partial(roles_grace.wait_for_ever, c)
    assert str(played(roles, deadline=4, grace=1)["a"]) == "was overdue"


def test_a_role_that_reports_no_more_is_waited_for_without_a_busy_core(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, look = list[Supervisor](), Supervisor._look

    def count(self: Supervisor) -> None:
        looks.append(self)
        look(self)

    monkeypatch.setattr(Supervisor, "_look", count)
    outcomes = played({"a": roles_plain.nothing}, before=roles_grace.report_no_more, deadline=4)
    assert "in report_no_more" in stacks(outcomes["a"])
    assert len(looks) < 20


def test_a_world_does_not_end_while_another_thread_wakes_its_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the pipe is closed in the middle of its use: a TypeError, or a write into another file."""
    before, ended, send = {*threading.enumerate()}, list[bool](), Connection.send_bytes

    def told(self: Connection, content: bytes) -> None:
        if content == b"look":
            os.kill(world.pids["a"], signal.SIGKILL)
            supervisor.join(0.5)
            ended.append(not supervisor.is_alive())
        send(self, content)

    with launch(["a"], deadline=DEADLINE) as world:
        (supervisor,) = (each for each in {*threading.enumerate()} - before if each.name == "world")
        monkeypatch.setattr(Connection, "send_bytes", told)
        world.expire()
    assert ended == [False]


# The rules alone: roles as their launcher sees them, and a clock of the test's own where time has to pass.


@dataclass
class Role:
    name: str
    phase: str
    pid: int = field(default_factory=os.getpid)
    heard: float = 0.0
    news: str = "b is gone"
    sent: list[object] = field(default_factory=list)

    busy: bool = False

    def send(self, *message: object, wait: bool) -> bool:
        self.sent += [] if self.busy else message
        return not self.busy


def joining() -> tuple[Grace, Any]:
    """A grace of ten seconds, and a role for it."""
    return Grace(10), Role("a", Phase.JOINING)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """``now`` is what the time is."""
    found = SimpleNamespace(now=0.0)
    monkeypatch.setattr("reference.world.supervisor.time", SimpleNamespace(monotonic=lambda: found.now))
    return found


def test_roles_that_were_held_up_with_their_launcher_have_time_to_answer(clock: SimpleNamespace) -> None:
    """Such as by a container that was frozen."""
    grace, role = joining()
    assert grace.given_up([role], ended=False) == []
    assert grace.due == 5
    clock.now = 1000
    assert grace.given_up([role], ended=False) == []
    assert role.sent == ["ping"]
    assert grace.due == 1005
    clock.now = 1005
    assert grace.given_up([role], ended=False) == [(role, "was stuck in the start of RPC, and was ended after 10 s")]


def test_a_role_that_cannot_be_asked_is_asked_as_soon_as_it_can(clock: SimpleNamespace) -> None:
    """A call is being sent to it."""
    grace, role = joining()
    role.busy = True
    grace.given_up([role], ended=False)
    for clock.now in (5.0, 5.5):
        grace.given_up([role], ended=False)
        assert grace.due == clock.now + LOOK_SECONDS
    role.busy, clock.now = False, 6.0
    grace.given_up([role], ended=False)
    assert role.sent == ["ping"]
    assert grace.due == 10


def test_a_role_that_waits_for_one_that_has_not_begun_is_not_stuck(clock: SimpleNamespace) -> None:
    grace, role = joining()
    other: Any = Role("b", Phase.STARTING)
    for clock.now in (0.0, 5.0, 10.0):
        assert grace.given_up([role, other], ended=False) == []


def test_a_role_that_a_debugger_has_is_not_given_up() -> None:
    trace_me = "import ctypes, sys; print(ctypes.CDLL(None).ptrace(0, 0, 0, 0), flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", trace_me], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as traced:
        assert traced.stdout is not None
        if traced.stdout.readline() != b"0\n":
            pytest.skip("the kernel lets nobody debug here")
        roles: list[Any] = [Role("a", Phase.TOLD, traced.pid), Role("b", Phase.JOINING)]
        grace = Grace(1e-9)
        found = [[role.name for role, _ in grace.given_up(roles, ended=True)] for _ in range(9)]
        roles[0].phase = Phase.JOINING  # for which the other one may wait
        found += [[role.name for role, _ in grace.given_up(roles, ended=True)] for _ in range(9)]
        assert grace.due is not None
    assert found == [[]] + 8 * [["b"]] + 9 * [[]]
