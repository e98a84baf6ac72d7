"""Worlds: every way a role can end, and that nothing is left whatever happens to the launcher."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import Pipe, get_context
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
import torch

from faults.run.leftovers import ends_by, is_running
from reference.outcome import Exited, Killed, Overdue, Raised, Returned, RoleFailed
from reference.roles import Roles
from reference.system.temporary_folders import PREFIXES
from reference.trace.checkpoint import Checkpoints
from reference.world import World, WorldError, launch, run_rank
from reference.world.role_handle import STACKS_SECONDS, RoleHandle
from reference.world.rpc_agent import VARIABLES
from tests.support import own_process, roles_plain
from tests.support.processes import children_of, descendants_of, kept_waiting, left_after, parent_of, stop

pytestmark = pytest.mark.usefixtures("forkserver")

ROOT = Path(__file__).parents[2]
PEER_LOST = "reference.outcome.PeerLost"
UNSENDABLE = "the result cannot be sent to another process (cannot pickle '_thread.lock' object); wanted data"
KNOWN = "wanted some of num_worker_threads, rpc_timeout, device_maps, devices, _transports, _channels"


@pytest.fixture(scope="module")
def idle() -> Iterator[World]:
    """A world for tests whose calls leave its roles in service."""
    with launch(["a", "b"], deadline=10_000) as world:
        yield world


def outcomes_with(play: Callable[[], object], deadline: float = 30) -> dict[str, object]:
    """Run a world of three: ``a``, which is started between the others, plays, and they only shut down with it."""
    with launch({"b": roles_plain.nothing, "a": play, "c": roles_plain.nothing}, deadline=deadline) as world:
        return dict(world.wait())


def lost(text: str) -> Raised:
    return Raised(PEER_LOST, text)


def without_traceback(outcome: object) -> Raised:
    assert isinstance(outcome, Raised), outcome
    assert outcome.traceback
    return Raised(outcome.type, outcome.message)


def test_a_role_that_raises_gives_type_message_and_remote_traceback() -> None:
    outcomes = outcomes_with(roles_plain.unlucky)
    raised = outcomes["a"]
    assert isinstance(raised, Raised)
    assert raised.type == "tests.support.roles_plain.Unlucky"
    assert raised.message == "today"
    assert 'raise Unlucky("today")' in raised.traceback
    for survivor in ("b", "c"):
        assert without_traceback(outcomes[survivor]) == lost("a raised tests.support.roles_plain.Unlucky: today")


def test_a_function_whose_result_cannot_be_sent_says_so() -> None:
    with launch({"a": roles_plain.unsendable}) as world:
        assert without_traceback(world.wait()["a"]) == Raised("reference.outcome.WorldError", UNSENDABLE)


def test_a_hook_that_fails_hides_no_error() -> None:
    with launch({"a": roles_plain.unlucky_with_a_hook_that_fails}) as world:
        assert without_traceback(world.wait()["a"]) == Raised("tests.support.roles_plain.Unlucky", "today")


@pytest.mark.parametrize(
    ("play", "outcome"),
    [
        (partial(sys.exit, 0), Exited(0)),
        (partial(sys.exit, -1), Exited(255)),
        (partial(sys.exit, "no more"), Exited(1)),
        (partial(os._exit, 0), Exited(0)),
        (roles_plain.kill_oneself, Killed(signal.SIGKILL)),
        (roles_plain.crash, Killed(signal.SIGSEGV)),
    ],
    ids=["exit with 0", "exit with -1", "exit with a text", "end with 0", "killed", "crash"],
)
def test_every_end_has_its_outcome_and_survivors_hear_of_it(play: Callable[[], object], outcome: object) -> None:
    outcomes = outcomes_with(play)
    assert outcomes["a"] == outcome
    assert without_traceback(outcomes["b"]) == lost(f"a {outcome}")
    assert without_traceback(outcomes["c"]) == lost(f"a {outcome}")


def test_a_survivor_in_the_shutdown_hears_of_a_death() -> None:
    """It may also be just before or after the shutdown: the role is lost only after the survivor's function is done."""
    with launch({"a": roles_plain.kill_oneself_when_b_is_done, "b": roles_plain.be_done}, deadline=10) as world:
        survivor = world.wait()["b"]
    assert isinstance(survivor, Raised)
    assert without_traceback(survivor) == lost("a was killed by SIGKILL")  # not torch's own `eof`, which may come too
    assert any(place in survivor.traceback for place in ("rpc.shutdown()", "link.enter", "with _peers_blamed"))


def test_a_survivor_whose_shutdown_fails_hears_of_a_death_that_its_launcher_sees_later() -> None:
    roles = {"a": roles_plain.kill_oneself_when_b_is_done, "b": roles_plain.be_done_when_the_shutdown_fails}
    with launch(roles, deadline=20) as world:
        assert without_traceback(world.wait()["b"]) == lost("a was killed by SIGKILL")


@pytest.mark.long
def test_a_role_that_has_reported_its_end_keeps_its_outcome_when_another_dies(tmp_path: Path) -> None:
    """Nor is it given up when it has not heard of that for a grace, while its process still ends."""
    roles: dict[str, Callable[[], object]] = {
        "a": partial(roles_plain.return_and_be_killed_later, tmp_path),
        "b": partial(roles_plain.return_and_end_later, tmp_path, 4.5),
    }
    with launch(roles, grace=2, deadline=30) as world:
        assert world.wait() == {"a": Killed(signal.SIGKILL), "b": Returned(7)}


def test_an_overdue_role_leaves_the_stacks_of_all_threads() -> None:
    start = time.monotonic()
    outcomes = outcomes_with(roles_plain.wait_for_ever, deadline=1.5)
    assert time.monotonic() - start < 1.5 + 2 + 1
    overdue = outcomes["a"]
    assert isinstance(overdue, Overdue)
    assert "in wait_for_ever" in overdue.stacks
    assert "in _second_thread" in overdue.stacks
    assert without_traceback(outcomes["b"]) == lost("a was overdue")


@pytest.mark.long
def test_a_role_that_writes_no_stacks_is_overdue_and_killed() -> None:
    start = time.monotonic()
    with launch({"a": roles_plain.be_deaf}, deadline=1.0) as world:
        overdue = world.wait()["a"]
        assert 1.0 + STACKS_SECONDS <= time.monotonic() - start < 1.0 + STACKS_SECONDS + 5
    assert isinstance(overdue, Overdue)
    assert re.fullmatch(r"\(no complete stacks; kernel state: S \(sleeping\)\)\n", overdue.stacks), overdue.stacks


def test_a_role_that_ends_while_it_writes_stacks_says_so(tmp_path: Path) -> None:
    """A thread may write them while another one ends the process."""
    end = partial(roles_plain.end_when_asked, tmp_path / "a.stacks", "Thread 1:\n")
    with launch({"a": end}, deadline=1.0, folder=tmp_path) as world:
        overdue = world.wait()["a"]
    assert isinstance(overdue, Overdue)
    assert overdue.stacks == "Thread 1:\n(no complete stacks; kernel state: ended at once)\n"


def test_a_role_that_outlives_its_killing_is_due_again_later_and_not_at_once(tmp_path: Path) -> None:
    """Otherwise the launcher would keep a core busy while a debugger or the kernel delays the role's end."""
    process = get_context("forkserver").Process(target=roles_plain.wait_for_ever)
    ours, theirs = Pipe()
    try:
        process.start()
        handle = RoleHandle("a", process, ours, tmp_path / "a.stacks")
        handle.overdue()
        asked = handle.deadline() or 0.0
        handle.overdue()
        killed = handle.deadline() or 0.0
        assert killed > asked > 0
    finally:
        process.kill()
        process.join()
        ours.close()
        theirs.close()


def test_a_thread_that_never_ends_makes_its_role_overdue() -> None:
    with launch({"a": roles_plain.never_finish}, deadline=1.5) as world:
        overdue = world.wait()["a"]
    assert isinstance(overdue, Overdue)
    assert "_shutdown" in overdue.stacks


@pytest.mark.long
def test_an_idle_role_ends_at_its_worlds_deadline() -> None:
    """Although nobody waits for it."""
    with launch(["a"], deadline=1) as world:
        pid = world.call("a", os.getpid)
        assert left_after({pid}, 20) == set()
        with pytest.raises(RoleFailed) as caught:
            world.call("a", roles_plain.name)
        assert isinstance(caught.value.outcome, Overdue)


def test_a_role_that_stops_in_the_middle_of_its_report_is_overdue_all_the_same() -> None:
    start = time.monotonic()
    with launch({"a": roles_plain.stop_in_mid_send, "b": roles_plain.nothing}, deadline=1.5) as world:
        outcomes = world.wait()
    assert time.monotonic() - start < 1.5 + 6 + 1
    assert isinstance(outcomes["a"], Overdue)


def test_closing_after_an_interrupted_wait_waits_itself() -> None:
    """An interrupted Thread.join takes a running thread for ended (Python 3.11)."""
    with launch({"a": roles_plain.wait_for_ever}) as world:
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            world.wait()
        timer.join()
    assert world.outcomes == {"a": Killed(signal.SIGKILL)}


def test_a_death_is_seen_within_50_ms() -> None:
    """The promise, as the median of seven, from when the kernel tells of the death.

    Less the time in which the kernel runs others: instead of this thread, which hears of the death too, and of the two
    through which the launcher does, the forkserver that reaps the role and the world's own.
    """
    delays = []
    for _ in range(7):
        with launch(["a", "b"]) as world:
            world.call("a", roles_plain.nothing)
            pid, here = world.pids["a"], os.getpid()
            *_, thread = [each.native_id or 0 for each in threading.enumerate() if each.name == "world"]
            through = [(parent_of(pid) or 0, parent_of(pid) or 0), (here, thread)]
            others = -sum(kept_waiting(*each) for each in through)
            died = -kept_waiting(here, threading.get_native_id())
            os.kill(pid, signal.SIGKILL)
            assert ends_by(pid, time.monotonic() + 30)
            died = time.monotonic() - (died + kept_waiting(here, threading.get_native_id()))
            with pytest.raises(RoleFailed, match=r"^a was killed by SIGKILL$"):
                world.call("a", roles_plain.nothing)
            others += sum(kept_waiting(*each) for each in through)
            delays.append(world.ended["a"] - died - others)
    assert statistics.median(delays) < 0.05, delays


@pytest.mark.long
def test_64_roles_can_call_each_other() -> None:
    names = [f"role{index}" for index in range(64)]
    with launch(dict.fromkeys(names, roles_plain.next_one), deadline=100) as world:
        outcomes = world.wait()
    assert outcomes == {name: Returned(names[(index + 1) % 64]) for index, name in enumerate(names)}


class TestCalls:
    def test_ranks_follow_the_order_of_the_names(self) -> None:
        with launch(["c", "a", "b"]) as world:
            assert [world.call(name, roles_plain.rank) for name in ("a", "b", "c")] == [1, 2, 0]

    @pytest.mark.parametrize(
        ("play", "text"),
        [
            (roles_plain.unlucky, r"tests\.support\.roles_plain\.Unlucky: today"),
            (roles_plain.mute, r"tests\.support\.roles_plain\.Mute: \(its text cannot be made: ValueError\)"),
            (roles_plain.unsendable, rf"reference\.outcome\.WorldError: {re.escape(UNSENDABLE)}"),
            (roles_plain.unreadable, "TypeError: .*missing 1 required positional argument: 'b'"),
        ],
    )
    def test_an_exception_leaves_the_role_in_service(self, play: Callable[[], object], text: str, idle: World) -> None:
        with pytest.raises(RoleFailed, match=f"^a raised {text}$") as caught:
            idle.call("a", play)
        assert isinstance(caught.value.outcome, Raised)
        assert idle.call("a", roles_plain.add, 1, 1) == 2

    def test_a_call_that_fails_holds_nothing_on(self, idle: World) -> None:
        """torch's futures keep their errors, and these what their frames hold."""
        with pytest.raises(RoleFailed, match="Unlucky: both"):
            idle.call("a", roles_plain.fail_by_two_futures)
        assert idle.call("a", roles_plain.held) == 0

    def test_a_call_that_misses_its_deadline_ends_its_role(self) -> None:
        with launch(["a", "b"], deadline=15) as world:
            with pytest.raises(RoleFailed, match=r"^a was overdue$") as caught:
                world.call("a", roles_plain.wait_for_ever, deadline=1)
            assert isinstance(caught.value.outcome, Overdue)
            assert "in wait_for_ever" in caught.value.outcome.stacks
            assert world.call("b", roles_plain.name) == "b"

    def test_a_call_that_its_role_never_reads_misses_its_deadline(self) -> None:
        """What is sent is more than the pipe holds, so the caller waits in the middle of it."""
        with launch(["a"]) as world:
            world.call("a", roles_plain.nothing)
            os.kill(world.pids["a"], signal.SIGSTOP)
            start = time.monotonic()
            with pytest.raises(RoleFailed, match=r"^a was overdue"):
                world.call("a", len, bytes(1 << 24), deadline=1)
            assert time.monotonic() - start < 1 + 6 + 1

    def test_a_call_to_a_dead_role_fails_at_once(self) -> None:
        with launch(["a", "b"]) as world:
            for _ in range(2):
                with pytest.raises(RoleFailed, match=r"^a exited with status 4$"):
                    world.call("a", os._exit, 4)

    def test_a_call_that_kills_its_role_tells_what_the_role_has_written(self) -> None:
        with launch(["a"]) as world:
            world.call("a", print, "what C++ has said")
            world.call("a", roles_plain.say_to_stderr, "what Python has said")
            with pytest.raises(
                RoleFailed,
                match=r"^a was killed by SIGABRT\nwhat C\+\+ has said\nwhat Python has said\nFatal Python error: ",
            ):
                world.call("a", os.abort)

    def test_after_the_shutdown_no_call_is_taken(self) -> None:
        with launch(["a"]) as world:
            world.wait()
            with pytest.raises(WorldError, match=r"^a has shut down$"):
                world.call("a", roles_plain.add, 1, 1)

    def test_after_its_end_a_world_takes_no_call(self) -> None:
        with launch(["a"]) as world:
            pass
        for use in (partial(world.call, "a", roles_plain.nothing), partial(world.run, {"a": roles_plain.nothing})):
            with pytest.raises(WorldError, match=r"^a cannot be called: its world is closed$"):
                use()

    def test_run_plays_all_at_once(self) -> None:
        with launch(["a", "b", "c"]) as world:
            for _ in range(3):
                outcomes = world.run({"a": roles_plain.name, "b": roles_plain.unlucky})
                assert outcomes["a"] == Returned("a")
                assert without_traceback(outcomes["b"]) == Raised("tests.support.roles_plain.Unlucky", "today")
            assert not world.busy
            assert world.wait() == dict.fromkeys("abc", Returned(None))

    def test_calls_that_cannot_be_made_are_refused(self) -> None:
        with launch(["a", "b"]) as world:
            with pytest.raises(WorldError, match=r"^the call to b: cannot be sent"):
                world.run({"a": roles_plain.wait_for_ever, "b": lambda: None})
            with pytest.raises(WorldError, match=r"^no role 'z', wanted one of a, b$"):
                world.call("z", roles_plain.nothing)
            with pytest.raises(WorldError, match=r"^no role 'z', wanted one of a, b$"):
                world.log("z")
            with pytest.raises(WorldError, match=r"^the call to a: cannot be sent to another process \(.*at the top"):
                world.call("a", lambda: None)
            with pytest.raises(WorldError, match=r"^the call to a: cannot be sent to another process \(ctypes objects"):
                world.call("a", print, ctypes.pointer(ctypes.c_int(1)))
            with pytest.raises(WorldError, match=r"^a deadline is a positive number of seconds, .*, got 0$"):
                world.call("a", roles_plain.nothing, deadline=0)
            assert not world.busy
        with pytest.raises(WorldError, match=r"^options: cannot be sent to another process \(.*generator"):
            launch({"a": roles_plain.nothing}, options={"_channels": (each for each in ["basic"])})
        own = launch({"a": roles_plain.nothing})
        with own as world, pytest.raises(WorldError, match="plays a function of its own"):
            world.call("a", roles_plain.nothing)


def refused(roles: dict[str, Callable[[], object]], folder: Path | None = None) -> None:
    with pytest.raises(WorldError):
        launch(roles, folder=folder)


# How a world may end, or not begin.
WAYS: dict[str, Callable[[], object]] = {
    "all return": lambda: outcomes_with(roles_plain.nothing),
    "one raises": lambda: outcomes_with(roles_plain.unlucky),
    "one is killed": lambda: outcomes_with(roles_plain.kill_oneself),
    "one is overdue": lambda: outcomes_with(roles_plain.wait_for_ever, deadline=0.5),
    "closed without waiting": lambda: launch({"a": roles_plain.wait_for_ever}).close(),
    "isolated": lambda: launch(["a"], isolated=True).close(),
    "no folder": lambda: refused({"a": roles_plain.nothing}, Path(os.devnull)),
    "no function of a file": lambda: refused({"a": roles_plain.nothing, "b": lambda: None}),
}


class TestNothingIsLeft:
    def test_nothing_is_left_after_leaving_without_waiting(self) -> None:
        with launch({"a": roles_plain.wait_for_ever}) as world:
            assert is_running(world.pids["a"])
            assert world.busy
            assert world.ended == {}
        assert world.outcomes == {"a": Killed(signal.SIGKILL)}
        assert left_after(set(world.pids.values()), 5) == set()
        assert not world.folder.exists()

    def test_nothing_is_left_of_a_world_that_nobody_closes(self) -> None:
        world: World | None = launch(["a"])
        assert world is not None
        world.call("a", roles_plain.name)  # RPC is up: a role that still starts ends with its folder
        pids, folder = set(world.pids.values()), world.folder
        world = None
        gc.collect()
        assert left_after(pids, 5) == set()
        assert not folder.exists()

    @pytest.mark.parametrize("way", WAYS)
    def test_the_launching_process_keeps_no_thread_and_no_open_file(self, way: str) -> None:
        WAYS[way]()  # the first world opens what stays for all
        before = own_process.everything()
        WAYS[way]()
        assert own_process.left_since(before) == []

    def test_nothing_is_left_of_what_a_role_had_started(self) -> None:
        with launch(["a", "b"]) as world:
            child = world.call("a", roles_plain.start_a_child)
            assert is_running(child)
            assert world.wait()["a"] == Returned(None)
        assert left_after({child}, 5) == set()

    @pytest.mark.long
    def test_nothing_is_left_when_the_launching_process_is_killed(self) -> None:
        """A stopped role, a running one, one that waits in the shutdown, the forkserver and the resource tracker. The
        folders go when the next one launches."""
        before = set(Path(os.environ["TMPDIR"]).iterdir())  # the folder of processes of tests
        with launcher() as (process, roles):
            everybody = descendants_of(process.pid)
            assert len(roles) == 3
            assert roles < everybody
            stop(min(roles))
            process.kill()
            process.wait(10)
            assert left_after(everybody | roles, 10) == set()
        assert {name.partition("-")[0] for name in _new_folders(before)} == {"world", "pymp"}
        with launcher() as (process, _):
            process.send_signal(signal.SIGINT)
            process.wait(10)
        assert _new_folders(before) == set()

    @pytest.mark.long
    def test_nothing_is_left_when_the_launching_process_is_interrupted(self) -> None:
        with launcher() as (process, roles):
            everybody = descendants_of(process.pid) | roles
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == -signal.SIGINT
            assert left_after(everybody, 10) == set()

    @pytest.mark.long
    def test_nothing_is_left_by_a_forkserver_that_is_killed(self) -> None:
        with launcher() as (process, roles):
            servers = [pid for pid in children_of(process.pid) if roles & children_of(pid)]
            assert len(servers) == 1
            os.kill(servers[0], signal.SIGKILL)
            assert left_after(roles, 10) == set()
            assert process.wait(20) == 0


def _new_folders(before: set[Path]) -> set[str]:
    names = {each.name for each in set(Path(os.environ["TMPDIR"]).iterdir()) - before}
    return {name for name in names if name.startswith(PREFIXES)}


@contextmanager
def launcher() -> Iterator[tuple[subprocess.Popen[str], set[int]]]:
    """A process that has launched a world of three: (process, pids of its roles)."""
    command = [sys.executable, "-m", "tests.support.launcher"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield process, {int(pid) for pid in process.stdout.readline().split()}
        finally:
            process.kill()


# What `roles_plain.speak` writes.
SAID = ("said to stdout", "said to stderr", "said by the process", "said as a warning")


class TestLogs:
    def test_a_log_has_everything_that_a_process_writes_and_outlives_the_world(self) -> None:
        with launch({"a": roles_plain.speak, "b": roles_plain.nothing, "c": roles_plain.speak}) as world:
            world.wait()
            inside = {role: world.log(role) for role in world.pids}
        for text in SAID:
            assert text in inside["a"]
            assert text in inside["c"]
        # No deprecation warning of torch's; but torch may warn of an answer whose caller has just ended its RPC.
        assert all("when sending response" in line for line in inside["b"].splitlines())
        assert {role: world.log(role) for role in "abc"} == inside

    def test_pythons_streams_are_the_processs(self, idle: World) -> None:
        """Whoever redirects a descriptor redirects what Python prints, too."""
        assert idle.call("a", roles_plain.descriptors) == (1, 2)

    def test_a_role_that_closes_its_streams_returns_and_has_a_log(self) -> None:
        """As in any Python process: C++ can still write."""
        with launch({"a": roles_plain.speak_without_streams}) as world:
            assert world.wait() == {"a": Returned(None)}
            assert world.log("a") == "said to 1\nsaid to 2\n"

    def test_a_role_whose_disk_is_full_returns(self) -> None:
        with launch({"a": roles_plain.print_to_a_full_disk}) as world:
            assert world.wait() == {"a": Returned(None)}

    @pytest.mark.long
    @pytest.mark.parametrize("own", [0, 3])
    def test_a_log_has_everything_if_its_launcher_has_no_standard_streams(self, own: int, tmp_path: Path) -> None:
        """A daemon's may be closed, and files of its own may have their numbers."""
        program = (
            f"import sys; from pathlib import Path; own = [open('/dev/null') for _ in range({own})]\n"
            "from reference.world import launch; from tests.support import roles_plain\n"
            "with launch({'a': roles_plain.speak}, folder=Path(sys.argv[1])) as world: world.wait()"
        )
        command, closed = [sys.executable, "-c", program, str(tmp_path)], partial(os.closerange, 0, 3)
        subprocess.run(command, cwd=ROOT, preexec_fn=closed, timeout=60, check=True)
        inside = (tmp_path / "a.log").read_text()
        for text in SAID:
            assert text in inside

    def test_the_end_of_a_long_log_is_kept(self) -> None:
        with launch({"a": roles_plain.speak_at_length}) as world:
            world.wait()
        assert world.log("a").endswith("end\n")
        assert len(world.log("a")) == 1 << 16

    def test_a_folder_that_was_given_stays_and_can_be_used_again(self, tmp_path: Path) -> None:
        """Also if no role had begun: an earlier launch has failed."""
        (tmp_path / "rendezvous").touch()
        for _ in range(2):
            with launch({"a": roles_plain.speak, "b": roles_plain.name}, folder=tmp_path) as world:
                assert world.wait()["b"] == Returned("b")
            assert (tmp_path / "a.log").read_text().count("said to stdout") == 1

    def test_a_folder_that_cannot_be_a_worlds_is_refused_in_one_line(self, tmp_path: Path) -> None:
        (tmp_path / "rendezvous").mkdir()
        (tmp_path / "b.log").touch()
        (tmp_path / "b.stacks").touch()
        with pytest.raises(WorldError, match=r"cannot be a world's: Is a directory$"):
            launch(["a"], folder=tmp_path)


class TestDoors:
    def test_before_runs_in_each_process_before_rpc(self) -> None:
        with launch({"a": roles_plain.remembered, "b": roles_plain.remembered}, before=roles_plain.remember) as world:
            assert world.wait() == {"a": Returned(["a False"]), "b": Returned(["b False"])}

    def test_a_before_that_raises_ends_everybody(self) -> None:
        with launch(dict.fromkeys("ab", roles_plain.nothing), before=roles_plain.refuse_b, deadline=100) as world:
            start = time.monotonic()
            outcomes = world.wait()
        assert time.monotonic() - start < 10
        assert without_traceback(outcomes["b"]) == Raised("tests.support.roles_plain.Unlucky", "before")
        assert without_traceback(outcomes["a"]) == lost("b raised tests.support.roles_plain.Unlucky: before")

    def test_progress_that_raises_ends_the_world(self) -> None:
        from reference.parameter_server import Case, roles

        def fail(role: str, record: dict[str, object]) -> None:
            raise roles_plain.Unlucky("progress")

        with launch(roles(Case(steps=2)), on_progress=fail) as world:
            with pytest.raises(WorldError, match=r"^the world's supervisor failed: progress$"):
                world.wait()
            assert set(world.outcomes) == set(world.pids)
            assert left_after(set(world.pids.values()), 5) == set()

    def test_progress_that_raises_ends_a_call_by_its_error(self) -> None:
        def fail(role: str, record: dict[str, object]) -> None:
            raise roles_plain.Unlucky("progress")

        failed = pytest.raises(WorldError, match=r"^the world's supervisor failed: progress$")
        with launch(["a"], on_progress=fail) as world, failed:
            world.call("a", roles_plain.announce_and_wait)

    @pytest.mark.parametrize("use", [World.close, World.expire, World.wait], ids=lambda use: use.__name__)
    def test_progress_that_would_wait_for_its_own_world_ends_it(self, use: Callable[[World], object]) -> None:
        """Nobody would enforce the deadline."""
        worlds = SimpleQueue[World]()

        def progress(role: str, record: dict[str, Any]) -> None:
            use(worlds.get(timeout=20))

        with launch({"a": roles_plain.announce_and_wait}, on_progress=progress) as world:
            worlds.put(world)
            with pytest.raises(
                WorldError, match=r"^the world's supervisor failed: on_progress cannot wait for its own"
            ):
                world.wait()

    def test_a_long_text_of_an_error_keeps_nobody_waiting(self, tmp_path: Path) -> None:
        """One role is stopped, so its pipe is read no more."""
        before = partial(roles_plain.stop_or_fail_at_length, str(tmp_path))
        with launch(dict.fromkeys("ab", roles_plain.nothing), before=before, grace=1, deadline=30) as world:
            outcomes = world.wait()
        assert isinstance(outcomes["a"], Raised)
        assert isinstance(outcomes["b"], Overdue)
        assert outcomes["b"].why

    def test_a_world_outlives_the_thread_that_launched_it(self) -> None:
        """The parent-death signal follows threads; roles must not die with the thread that launched them."""
        worlds: list[World] = []
        thread = threading.Thread(target=lambda: worlds.append(launch(["a", "b"])))
        thread.start()
        thread.join()
        with worlds[0] as world:
            assert world.call("a", roles_plain.name_of, "b") == "b"


class TestProcesses:
    def test_a_role_has_no_signal_blocked(self, idle: World) -> None:
        """Processes that it starts would never receive it."""
        assert idle.call("a", signal.pthread_sigmask, signal.SIG_BLOCK, ()) == set()

    def test_nothing_listens_beyond_loopback(self, idle: World) -> None:
        """The variables count, too, because this host's own name, the default, may mean loopback."""
        idle.call("a", roles_plain.name_of, "b")
        addresses = idle.call("a", roles_plain.listening_addresses)
        assert [idle.call("a", os.getenv, variable) for variable in VARIABLES] == ["lo", "lo"]
        assert addresses
        assert set(addresses) <= {"127.0.0.1", "::1"}

    def test_random_states_differ_by_role_and_repeat_by_name(self) -> None:
        draws = []
        for _ in range(2):
            with launch(["a", "b"]) as world:
                draws.append([world.call(role, roles_plain.draw) for role in "ab"])
        assert draws[0] == draws[1]
        assert all(x != y for x, y in zip(*draws[0], strict=True))

    @pytest.mark.parametrize("threads", [1, 2])
    def test_operators_use_as_many_threads_as_asked_for(self, threads: int) -> None:
        with launch({"a": roles_plain.threads}, threads=threads) as world:
            assert world.wait() == {"a": Returned((threads, ["1"] * 3))}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"roles": {}}, "a world needs at least one role, got none"),
        ({"roles": ["a", "a"]}, "role names must differ, got a, a"),
        ({"roles": ["a b"]}, "a role's name is 1 to 127 letters, digits, '_', ':' or '-', got 'a b'"),
        ({"roles": ["a"], "deadline": 0}, "a deadline is a positive number of seconds, at most 1e+06, got 0"),
        ({"roles": ["a"], "grace": 0}, "a grace is a positive number of seconds, at most 1e+06, got 0"),
        ({"roles": ["a"], "threads": 0}, "threads must be at least 1, got 0"),
        (
            {"roles": ["a"], "options": {"rpc_timeout": 0}},
            "rpc_timeout is a positive number of seconds, at most 1e+06, got 0",
        ),
        ({"roles": {"a": 3}}, "a: wanted a function, got 3"),
        ({"roles": "ps"}, "roles are a mapping or a list of names, got 'ps'"),
        ({"roles": ["a"], "options": [1]}, "options are a mapping, got [1]"),
        ({"roles": ["a"], "restarts": "1"}, "restarts are a number, at least 0, got '1'"),
        (
            {"roles": ["a"], "options": {"frob": 1, "init_method": "x"}},
            f"unknown RPC option 'frob', 'init_method', {KNOWN}",
        ),
        ({"roles": Roles({"a": roles_plain.name}, {}, {"a": {7: 1}})}, f"unknown RPC option 7, {KNOWN}"),  # type: ignore[dict-item]
        ({"roles": ["a"], "checkpoints": Checkpoints(Path("x"), ["a", "b"])}, "checkpoints of a, b, wanted those of a"),
        (
            {"roles": ["a"], "options": {"rpc_timeout": math.inf}},
            "rpc_timeout is a positive number of seconds, at most 1e+06, got inf",
        ),
        ({"roles": ["a"], "threads": True}, "threads must be at least 1, got True"),
        ({"roles": ["a"], "before": 5}, "before: wanted a function, got 5"),
        ({"roles": ["a"], "on_progress": 5}, "on_progress: wanted a function, got 5"),
        ({"roles": {"a": torch.zeros(2, 1)}}, "a: wanted a function, got tensor([[0.], [0.]])"),
        ({"roles": ["a"], "folder": ""}, "folder is a path, got ''"),
        ({"roles": ["a"], "isolated": 1}, "isolated must be True or False, got 1"),
        (
            {"roles": ["a", "b"], "restarts": 1},
            "a world whose roles wait for calls cannot be started again, wanted restarts=0",
        ),
    ],
)
def test_bad_arguments_start_nothing(
    arguments: dict[str, object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reference.world.launcher.start", lambda config: pytest.fail("a process was started"))
    with pytest.raises(WorldError) as caught:
        launch(**arguments)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_run_rank_checks_its_arguments_and_takes_any_port(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(variable, value)
    with pytest.raises(WorldError, match=r"^a world needs at least one role, got none$"):
        run_rank({})


def test_run_rank_needs_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(WorldError, match=r"^not started by torchrun: RANK is None, wanted a number$"):
        run_rank({"a": roles_plain.nothing})
