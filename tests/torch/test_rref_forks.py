"""RRefs that are passed on: the owner counts forks, even if roles die or messages are lost; torch 2.13."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.plan import Plan
from faults.run.runs import scope
from reference.world import World, launch
from tests.support import roles_rrefs as plays
from tests.support.idle import AT_ONCE, EARLY, GONE, LATE, idle, keeps, kill
from tests.support.roles_plain import await_true, name_of

SECONDS = 0.5


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """``b`` owns the objects. No role dies, and each test leaves nothing."""
    with idle("abcd", deadline=600) as started:
        yield started


@pytest.fixture
def clean(world: World) -> Iterator[World]:
    yield world
    for role in "abcd":
        keeps(world, role, 0, 0, 0)


def spread(world: World) -> None:
    """``a`` has the RRef made and passes it to ``c``, which passes it to ``d``."""
    world.call("a", plays.create, "k", "b", 7)
    keeps(world, "b", 1, 1, 0)
    assert world.call("a", plays.pass_on, "k", "c").error == ""
    assert world.call("c", plays.pass_on, "k", "d").error == ""
    keeps(world, "b", 1, 3, 0)


def test_an_rref_can_be_passed_back_to_its_owner(clean: World) -> None:
    """The owner has the object itself: that is no fork, is not counted, and outlives every user."""
    spread(clean)
    assert clean.call("d", plays.use_by_owner, "k", "b").value == 7
    keeps(clean, "b", 1, 3, 0)
    assert clean.call("d", plays.pass_on, "k", "b").error == ""
    for role in "acd":
        clean.call(role, plays.drop, "k")
    keeps(clean, "b", 0, 0, 0)
    assert clean.call("b", plays.fetch, "k").value == 7
    assert clean.call("b", plays.pass_on, "k", "a").error == ""
    keeps(clean, "b", 1, 1, 0)
    clean.call("b", plays.drop, "k")
    assert clean.call("a", plays.fetch, "k").value == 7
    clean.call("a", plays.drop, "k")


def test_one_that_only_its_owner_knows_is_not_counted(clean: World) -> None:
    clean.call("b", plays.create_own, "own", plays.Node(3))
    keeps(clean, "b", 0, 0, 0)
    assert clean.call("b", plays.pass_on, "own", "c").error == ""
    keeps(clean, "b", 1, 1, 0)
    clean.call("c", plays.drop, "own")
    keeps(clean, "b", 0, 0, 0)
    assert clean.call("b", plays.fetch, "own").value == 3
    clean.call("b", plays.drop, "own")


class TestDeadUser:
    def test_a_dead_users_autograd_context_is_kept_forever(self) -> None:
        with idle() as world:
            world.call("c", plays.open_context, "b")
            kill(world, "c")
            world.call("a", plays.open_context, "b")
            await_true(lambda: world.call("b", plays.contexts) == 2)
            world.call("a", plays.leave_context)
            await_true(lambda: world.call("b", plays.contexts) == 1)

    def test_a_dead_users_fork_is_kept_forever_and_other_users_go_on(self) -> None:
        """Upstream issue 26379."""
        with idle("abcd") as world:
            spread(world)
            kill(world, "c")  # from whom `d` has it
            assert [world.call(role, plays.fetch, "k").value for role in "ad"] == [7, 7]
            for role in "ad":
                world.call(role, plays.drop, "k")
            keeps(world, "b", 1, 1, 0)
            world.call("a", plays.create, "later", "b", 0)
            keeps(world, "b", 2, 2, 0)
            world.call("a", plays.drop, "later")
            keeps(world, "b", 1, 1, 0)


class TestDeadOwner:
    def test_every_use_of_a_dead_owners_rref_fails_at_once_and_again(self) -> None:
        with idle() as world:
            world.call("a", plays.create, "k", "b", 7)
            assert world.call("a", plays.pass_on, "k", "c").error == ""
            kill(world, "b")
            for role in "ac":
                for use, *args in ((plays.fetch,), (plays.add_by_proxy, 1), (plays.fetch,)):
                    failed = world.call(role, use, "k", *args)
                    assert failed.error == "RuntimeError"
                    assert failed.text.startswith(GONE)
                    assert failed.seconds < AT_ONCE
            world.call("a", plays.drop, "k")
            assert world.call("a", name_of, "c") == "c"

    def test_passing_a_dead_owners_rref_on_blocks_until_the_timeout(self) -> None:
        """It blocks the sender: the receiver waits for the owner's answer, never executes, and keeps one context
        (upstream issue 40936)."""
        with idle() as world:
            world.call("a", plays.create, "k", "b", 7)
            kill(world, "b")
            late = world.call("a", plays.pass_on, "k", "c", SECONDS)
            assert late.text.startswith(LATE)
            assert SECONDS - EARLY <= late.seconds < SECONDS + AT_ONCE
            assert not world.call("c", plays.holds, "k")
            keeps(world, "c", 0, 0, 1)
            assert world.call("a", name_of, "c") == "c"

    def test_an_rref_on_a_dead_owner_fails_when_created_or_fetched(self) -> None:
        """Which of the two depends on the moment; where creating does not fail, one stays pending for good."""
        with idle() as world:
            kill(world, "b")
            made = world.call("a", plays.create_with, "k", "b", plays.make, 1)
            failed = made if made.error else world.call("a", plays.fetch, "k")
            assert failed.error == "RuntimeError"
            assert made.seconds < AT_ONCE
            assert failed.seconds < AT_ONCE
            assert failed.text.startswith((*GONE, "connect: Connection refused ("))
            if not made.error:
                keeps(world, "a", 0, 0, 1)
            assert world.call("a", name_of, "c") == "c"


def test_a_receiver_whose_request_was_lost_executes_after_its_caller_gave_up(tmp_path: Path) -> None:
    plan = Plan.parse("Drop message=RREF_FORK_REQUEST role=c times=1")
    with scope(plan, tmp_path) as arguments, launch(list("abc"), **arguments) as world:
        world.call("a", plays.create, "k", "b", 7)
        assert world.call("a", plays.pass_on, "k", "c", 0.4).text.startswith(f"{LATE}400 ms)")
        assert not world.call("c", plays.holds, "k")
        assert world.call("c", plays.await_held, "k") >= 0.3
        assert world.call("c", plays.fetch, "k").value == 7
        for role in "ac":
            world.call(role, plays.drop, "k")
        keeps(world, "b", 0, 0, 0)
