"""`reference.world.shutdown`: it ends within its limit, names who is missing, and RPC can be started again.

``a`` is the first rank. Times have room for a busy machine; a limit is exact but for the scheduling of a thread.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch

from faults.ledger import ledger
from faults.ledger.run_files import renewed
from faults.plan import Plan
from faults.run.runs import at_work
from reference.outcome import Outcome, Returned, WorldError
from reference.world import World, launch, shutdown
from reference.world.bounded_shutdown import READY, STAGES, ShutdownBarrier
from tests.support import roles_bounded_shutdown as roles
from tests.support import roles_rrefs
from tests.support import roles_shutdown as plays
from tests.support.answers import Answer
from tests.support.idle import AT_ONCE, GONE, idle, kill, of
from tests.support.roles_plain import kill_oneself

pytestmark = pytest.mark.usefixtures("forkserver")

# Seconds that a shutdown may take, and how much later it may end on a busy machine.
LIMIT = 1.0
LATE = 1.0
# Seconds in which a death within torch's last count is noticed, with room.
SOON = 6.0


def starts_again(world: World, *names: str, place: str = "") -> None:
    """Start RPC again in these processes, the first ranks, and let each call the next. ``place``: not a new one."""
    place = place or f"file://{world.folder}/{secrets.token_hex(4)}"
    begin = {name: partial(roles.start, name, rank, len(names), place) for rank, name in enumerate(names)}
    outcomes = world.run(begin)
    assert [of(outcomes, name).text for name in names] == [""] * len(names)
    for name, peer in zip(names, names[1:] + names[:1], strict=True):
        assert world.call(name, plays.ask, peer).value == 2.0


@pytest.fixture
def held_store() -> Iterator[str]:
    """A store that outlives worlds, as torchrun holds it, and the rendezvous there."""
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False, use_libuv=False)  # type: ignore[attr-defined]
    yield f"tcp://localhost:{store.port}"
    del store


@contextmanager
def traced(folder: Path) -> Iterator[World]:
    """Start two roles whose RRefs are traced, without a fault."""
    with (
        renewed(Plan(), folder, trace=True) as place,
        at_work(Plan(), place, (), record=True) as arguments,
        launch(["a", "b"], **arguments) as world,
    ):
        yield world


def lost(outcomes: Mapping[str, Outcome], role: str) -> str:
    """The text with which a role's shutdown raised `PeerLost`."""
    found: Answer = of(outcomes, role)
    assert found.error == "PeerLost", found
    assert "\n" not in found.text
    return found.text


class TestHealthy:
    def test_rpc_ends_and_starts_again_at_the_same_and_at_another_store(self, held_store: str) -> None:
        """torch's own shutdown may come before and after."""
        with idle("ab") as world:
            for place, role_a, role_b in (
                (held_store, roles.end, roles.end),
                (held_store, roles.end, roles.end_in_a_thread),
                ("", plays.shutdown, plays.shutdown),
                ("", roles.end, roles.end),
            ):
                ended = world.run({"a": role_a, "b": role_b})
                assert [(of(ended, role).text, of(ended, role).seconds < AT_ONCE) for role in "ab"] == [("", True)] * 2
                assert not world.call("a", roles.is_up)
                starts_again(world, "a", "b", place=place)
            assert world.wait() == dict.fromkeys("ab", Returned(None))

    def test_what_was_noted_in_a_world_that_torch_has_ended_is_forgotten(self) -> None:
        with idle("ab") as world:
            assert not world.call("a", roles.is_in_its_shutdown)
            world.run(dict.fromkeys("ab", plays.shutdown))
            starts_again(world, "a")
            assert world.call("a", partial(roles.end, LIMIT)).text == ""

    def test_a_role_that_has_left_the_last_count_is_not_missing(self) -> None:
        """The first role waits for the last one there, and sees meanwhile that another one has left."""
        with idle() as world:
            ended = world.run({"a": roles.end, "b": roles.end, "c": partial(roles.end_when_seen_to_leave_last, "b")})
            assert [of(ended, role).text for role in "abc"] == [""] * 3

    def test_a_role_alone_ends(self) -> None:
        with idle("a") as world:
            assert world.call("a", roles.barrier_outlives_the_start)
            assert world.call("a", roles.end).text == ""
            again = world.call("a", roles.end)
            assert again.error == "WorldError"
            assert again.text[:14] == "RPC is not up:"

    def test_without_grace_no_role_waits(self) -> None:
        with idle("ab") as world:
            alone = world.call("b", partial(roles.end, graceful=False))
            assert alone.text == ""
            assert alone.seconds < AT_ONCE
            assert world.call("a", plays.ask, "b").text.startswith(GONE)

    def test_a_second_thread_is_refused_while_the_first_waits(self) -> None:
        with idle("ab") as world:
            ended = world.run({"a": partial(roles.end_twice_at_once, "b"), "b": roles.end_when_told})
            first, second = of(ended, "a")
            assert first.text == ""
            assert of(ended, "b").text == ""
            assert second.error == "WorldError"
            assert "another thread" in second.text

    def test_answers_under_way_arrive(self) -> None:
        with idle("ab") as world:
            assert world.call("a", roles.open_calls_while_watching, "b") == (1, 1)
            ended = world.run({"a": roles.end_and_open_gate_later, "b": partial(roles.send_and_get_answers, "a", 8)})
            caller, answers = of(ended, "b")
            assert of(ended, "a").text == ""
            assert caller.text == ""
            assert answers == list(range(8))

    def test_no_rref_is_left_and_a_run_under_faults_sees_the_shutdown(self, tmp_path: Path) -> None:
        with traced(tmp_path) as world:
            world.call("a", roles_rrefs.create, "k", "b", 1)
            world.call("a", plays.create_and_drop, "b", 8)
            ended = world.run(dict.fromkeys("ab", roles.end))
            assert [of(ended, role).text for role in "ab"] == ["", ""]
        timeline = ledger.read(tmp_path)
        assert [event.details for event in timeline.of("shutdown")] == [{"graceful": True, "timeout": 30.0}] * 2
        names = ("num_owner_rrefs", "num_forks", "num_pending_users")
        assert [[event.details[name] for name in names] for event in timeline.of("left")] == [[0, 0, 0]] * 2
        assert {event.role for event in timeline.of("traced")} == {"a", "b"}
        assert [event.role for event in timeline.of("held")] == ["a"]

    def test_a_trace_waits_for_a_role_that_has_died_within_the_limit(self, tmp_path: Path) -> None:
        with traced(tmp_path) as world:
            ended = world.run({"a": partial(roles.end, 3), "b": roles.die_before_the_open_calls_have_ended})
            assert lost(ended, "a").startswith("b is gone: ")
            assert of(ended, "a").seconds < 3


class TestMissing:
    @pytest.mark.parametrize("dead", ["a", "c"])
    def test_a_role_that_was_killed_before_is_named_at_once(self, dead: str) -> None:
        survivors = sorted({"a", "b", "c"} - {dead})
        with idle() as world:
            kill(world, dead)
            # The first role watches the others as soon as one of them has come.
            ended = world.run({role: roles.end_after_news if role == "a" else roles.end for role in survivors})
            for role in survivors:
                assert lost(ended, role).startswith(tuple(f"{dead} is gone: {text}" for text in GONE))
                assert of(ended, role).seconds < AT_ONCE
            if dead == "c":  # a process keeps its rank, so the first two can start again
                starts_again(world, *survivors)
                ended = world.run(dict.fromkeys(survivors, roles.end))
                assert [of(ended, role).text for role in survivors] == ["", ""]

    @pytest.mark.parametrize("stopped", ["a", "b"])
    def test_a_stopped_role_is_named_within_the_limit(self, stopped: str) -> None:
        others = sorted({"a", "b", "c"} - {stopped})
        with idle() as world:
            os.kill(world.pids[stopped], signal.SIGSTOP)
            try:
                ended = world.run(dict.fromkeys(others, partial(roles.end, LIMIT)))
            finally:
                os.kill(world.pids[stopped], signal.SIGCONT)
            for role in others:
                wanted = rf"[abc]'s shutdown timed out after 1 s: {stopped} does not answer within 0\.\d s"
                assert re.fullmatch(wanted, lost(ended, role)), lost(ended, role)
                assert of(ended, role).seconds < LIMIT + LATE
            assert not any(world.call(role, roles.is_up) for role in others)

    def test_a_limit_that_is_over_before_peers_are_asked_is_kept(self) -> None:
        """RPC takes less than a millisecond for no limit."""
        with idle(deadline=30) as world:
            os.kill(world.pids["b"], signal.SIGSTOP)
            ended = world.run(dict.fromkeys("ac", partial(roles.end, 0.001)))
        assert {role: of(ended, role).seconds < LATE for role in "ac"} == dict.fromkeys("ac", True)

    def test_a_role_that_was_told_why_does_not_wait_for_a_stopped_first_role(self) -> None:
        with idle() as world:
            os.kill(world.pids["a"], signal.SIGSTOP)
            ended = world.run({"b": partial(roles.end, LIMIT), "c": partial(roles.end_after_news, 8 * LIMIT)})
        assert lost(ended, "c").startswith("b's shutdown timed out after 1 s: a does not answer within ")
        assert of(ended, "c").seconds < AT_ONCE

    @pytest.mark.parametrize("missing", ["a", "b"])
    def test_a_role_that_never_comes_is_named_with_its_place(self, missing: str) -> None:
        """When it comes after all, it hears at once that it was given up, and RPC starts again in all of them."""
        others = sorted({"a", "b", "c"} - {missing})
        with idle() as world:
            ended = world.run({**dict.fromkeys(others, partial(roles.end, LIMIT)), missing: roles.end_after_news})
            wanted = f"timed out after 1 s: {missing} has not called it (its main thread is in end_after_news at roles_"
            for role in "abc":
                assert wanted in lost(ended, role)
            assert {role: of(ended, role).seconds < LIMIT + LATE for role in "abc"} == dict.fromkeys("abc", True)
            assert of(ended, missing).seconds < LATE
            starts_again(world, "a", "b", "c")

    @pytest.mark.parametrize("die", [roles.die_before_the_open_calls_have_ended, roles.die_before_the_last_count])
    def test_a_role_that_dies_when_all_have_come_is_named_at_once(
        self, die: Callable[[], None], held_store: str
    ) -> None:
        """No thread stays behind in torch's count, not even with a store that ends no wait."""
        with idle() as world:
            world.run(dict.fromkeys("abc", roles.end))
            starts_again(world, "a", "b", "c", place=held_store)
            ended = world.run({"a": roles.end, "b": roles.end, "c": die})
            for role in "ab":
                assert lost(ended, role).startswith("c is gone: ")
                assert of(ended, role).seconds < AT_ONCE
                assert world.call(role, roles.threads_left) == []
            starts_again(world, "a", "b")

    @pytest.mark.parametrize(("dead", "alive"), ["ac", "ca"])
    def test_a_role_that_dies_while_the_others_wait_for_calls_is_named_at_once(self, dead: str, alive: str) -> None:
        die = roles.die_before_the_open_calls_have_ended
        with idle() as world:
            world.call("b", roles.call_forever, alive)
            world.call(alive, roles.call_forever, "b")
            ended = world.run({"b": roles.end, alive: roles.end, dead: die})
        for role in ("b", alive):
            assert lost(ended, role).startswith(f"{dead} is gone: ")
            assert of(ended, role).seconds < AT_ONCE

    @pytest.mark.long
    def test_a_role_that_dies_in_the_last_count_is_named_soon(self) -> None:
        """With a store in a file, which ends a wait if it is told to, no thread stays behind inside torch, which would
        abort its process if it came back while Python ends."""
        with idle() as world:
            world.run(dict.fromkeys("abc", roles.end))
            starts_again(world, "a", "b", "c")
            ended = world.run({"a": roles.end, "b": roles.end, "c": roles.die_in_the_last_count})
            for role in "ab":
                assert lost(ended, role).startswith("c is gone: ")
                assert of(ended, role).seconds < SOON
                assert world.call(role, roles.threads_left) == []
            starts_again(world, "a", "b")

    @pytest.mark.long
    def test_a_role_that_is_stopped_in_the_last_count_is_named_within_the_counts_own_limit(self) -> None:
        with idle() as world:
            ended = world.run(
                {**dict.fromkeys("ab", roles.end_with_a_short_count), "c": roles.stop_in_the_last_count}, deadline=10
            )
        for role in "ab":
            assert re.fullmatch(r"[ab]'s shutdown failed: c does not answer within \d+\.\d s", lost(ended, role))
            assert of(ended, role).seconds < 10

    def test_rpc_ends_although_who_listens_fails(self) -> None:
        with idle("a") as world:
            assert world.call("a", roles.end_heard_by_who_fails).text == "today"
            assert not world.call("a", roles.is_up)

    def test_python_waits_for_a_count_that_has_not_ended(self) -> None:
        """It would abort the process that came back from C++ then."""
        with idle("a") as world:
            left = world.call("a", roles.threads_left_by_a_count_without_end, LIMIT)
        assert [" daemon " in each for each in left] == [False]

    def test_a_role_without_this_package_is_named(self) -> None:
        with idle("ab") as world:
            world.call("b", roles.forget_the_package)
            ended = world.run({"a": roles.end})
        assert lost(ended, "a").startswith("b cannot take part in the shutdown: ModuleNotFoundError: ")


class TestRanks:
    """Ranks of torchrun, which no launcher tells of a death."""

    @pytest.mark.parametrize("dead", ["a", "c"])
    def test_a_call_that_a_death_cut_off_says_who_died(self, dead: str) -> None:
        """The call's own error is the transport's, and names nobody."""
        with idle() as world:
            ended = world.run({**dict.fromkeys("ac", roles.play), "b": partial(roles.play, dead), dead: kill_oneself})
        for role in sorted({"a", "b", "c"} - {dead}):
            assert lost(ended, role).startswith(f"{dead} is gone: ")

    def test_the_others_hear_that_the_first_rank_has_failed_although_it_still_runs(self) -> None:
        with idle("ab") as world:
            ended = world.run({"a": partial(roles.play, "nobody"), "b": partial(roles.play, timeout=8 * LIMIT)})
        assert "nobody" in of(ended, "a").text
        assert lost(ended, "b") == "a ended by RuntimeError"

    def test_a_role_that_has_ended_rpc_itself_keeps_its_error(self) -> None:
        with idle("a") as world:
            assert world.call("a", roles.end_and_fail).text == "today"

    def test_a_loss_after_all_are_ready_does_not_count(self) -> None:
        barrier = ShutdownBarrier("ab")
        for stage in STAGES:
            for name in barrier.names:
                barrier.reach(stage, name)
        barrier.fail("b is gone: eof")
        assert barrier.answers[READY].value() is None


class TestWork:
    @pytest.mark.parametrize("callers", ["b", "ab"])
    def test_a_call_that_is_never_answered_is_named_within_the_limit(self, callers: str) -> None:
        """The one who waits for the call ends in time also if no other one tells it to."""
        with idle("ab") as world:
            for caller, callee in zip("ab", "ba", strict=True):
                if caller in callers:
                    world.call(caller, roles.call_forever, callee)
            ended = world.run(dict.fromkeys("ab", partial(roles.end, LIMIT)))
            for role in "ab":
                assert "shutdown timed out after 1 s: " in lost(ended, role)
                assert set(re.findall(r"(\w) waits for the answer of 1 call", lost(ended, role))) == set(callers)
                assert of(ended, role).seconds < LIMIT + LATE
            starts_again(world, "a", "b")

    @pytest.mark.parametrize("by", [roles.end, roles.await_no_rpc])
    def test_a_function_that_does_not_end_is_named_and_can_be_waited_for(self, by: Callable[[], Answer]) -> None:
        with idle("ab") as world:
            assert world.call("b", roles.call_what_blocks, "a", time.sleep, 3 * LIMIT).error == "RuntimeError"
            assert world.call("b", roles.call_what_blocks, "a").error == "RuntimeError"
            ended = world.run(dict.fromkeys("ab", partial(roles.end, LIMIT)))
            blocked = of(ended, "a")
            assert of(ended, "b").text == ""
            assert blocked.error == "WorldError"
            assert LIMIT / 2 < blocked.seconds < LIMIT + LATE
            assert "it still executes in wait_busily at roles_bounded_shutdown.py:" in blocked.text
            assert ", time.sleep; until that has ended, init_rpc cannot start RPC again" in blocked.text
            assert world.call("a", roles.is_up)
            assert [" daemon " in each for each in world.call("a", roles.threads_left)] == [True]
            world.call("a", roles.go_on)
            assert world.call("a", by).text == ""
            starts_again(world, "a", "b")
            ended = world.run(dict.fromkeys("ab", roles.end))
            assert [of(ended, role).text for role in "ab"] == ["", ""]
            assert not world.call("a", roles.is_up)


def test_the_last_seconds_of_a_limit_are_kept_for_the_end_itself() -> None:
    with idle("ab") as world:
        kept = world.call("a", roles.seconds_kept, 4), world.call("b", roles.seconds_kept, 60)
    assert kept == pytest.approx((1.0, 2.0), abs=0.1)


@pytest.mark.parametrize("timeout", [0, True, float("nan"), 1e7, "3"])
def test_a_timeout_that_cannot_be_waited_for_is_refused(timeout: object) -> None:
    with pytest.raises(WorldError, match="a timeout is a positive number of seconds, at most 1e\\+06, got "):
        shutdown(timeout)  # type: ignore[arg-type]
