"""RRefs whose function raises, or whose call is lost or late; and those dropped before they are made; torch 2.13."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from faults.ledger import ledger
from faults.plan import Plan
from faults.run.runs import scope
from reference.outcome import Returned
from reference.world import launch
from tests.support import roles_rrefs as plays
from tests.support.idle import AT_ONCE, EARLY, LATE, idle, keeps

NOT_MADE = (
    "RRef creation via rpc.remote() timed out, and it is possible that the RRef on the owner node does not exist."
)
SITE = "tests.support.roles_rrefs:make"


class TestRaises:
    @pytest.mark.parametrize("kind", ["ValueError", "KeyError", "Odd"])
    def test_every_fetch_of_a_failed_creation_raises_its_type(self, kind: str) -> None:
        with idle("ab") as world:
            assert world.call("a", plays.create_with, "k", "b", plays.refuse_with, kind).error == ""
            for _ in range(2):
                failed = world.call("a", plays.fetch, "k")
                assert failed.error == kind
                assert "On WorkerInfo(id=1, name=b):" in failed.text
                assert "no such thing" in failed.text
            due = time.monotonic() + 10
            while not world.call("a", plays.identity, "k")["confirmed"]:  # may come after the fetches
                assert time.monotonic() < due
            keeps(world, "b", 1, 1, 0)
            world.call("a", plays.drop, "k")
            keeps(world, "b", 0, 0, 0)

    def test_an_rref_whose_creation_failed_is_passed_on_as_any_other_and_fails_where_it_is_used(self) -> None:
        with idle() as world:
            world.call("a", plays.create_with, "k", "b", plays.refuse)
            assert world.call("a", plays.pass_on, "k", "c").error == ""
            assert world.call("c", plays.fetch, "k").error == "KeyError"
            assert world.call("c", plays.add_by_proxy, "k", 1).error == "RuntimeError"
            assert world.call("c", plays.use_by_owner, "k", "b").text.startswith("KeyError: 'On WorkerInfo(id=1")
            assert world.call("b", plays.executed) == ["refuse"]
            for role in "ac":
                world.call(role, plays.drop, "k")
            keeps(world, "b", 0, 0, 0)


class TestLost:
    """The request that creates the RRef never executes."""

    def test_all_uses_of_a_lost_creation_fail_and_say_so(self, tmp_path: Path) -> None:
        text = f"Drop site={SITE} role=a nth=2 side=request"
        with scope(Plan.parse(text), tmp_path) as arguments, launch(list("abc"), **arguments) as world:
            world.call("a", plays.create, "healthy", "b", 1)
            assert world.call("a", plays.create_with, "k", "b", plays.make, 2, 0.3).error == ""
            ended = world.call("a", plays.created, "k")
            assert ended.text == f"{LATE}300 ms) and will now be marked with an error"
            for use in (plays.fetch, plays.pass_on, plays.add_by_proxy, plays.fetch):
                args = {plays.pass_on: ("c",), plays.add_by_proxy: (1,)}.get(use, ())
                failed = world.call("a", use, "k", *args)
                assert failed.error == "RuntimeError"
                assert failed.text == NOT_MADE
                assert failed.seconds < AT_ONCE
            assert not world.call("c", plays.holds, "k")
            assert world.call("b", plays.executed) == ["make"]  # the healthy one
            (fired,) = ledger.read(tmp_path).of("fired")
            assert fired.details["caller"] == "a"
            assert fired.details["nth"] == 2
            keeps(world, "b", 2, 2, 0)  # it arrived
            keeps(world, "a", 0, 0, 0)
            assert world.call("a", plays.fetch, "healthy").value == 1


class TestLate:
    def test_an_rref_may_be_made_after_its_callers_timeout(self) -> None:
        """The caller never gets it, and the owner keeps it. Dropping it here might end the process."""
        with idle() as world:
            assert world.call("a", plays.create_with, "k", "b", plays.make_late, 5, 0.3).error == ""
            assert world.call("b", plays.await_entered)
            assert world.call("a", plays.created, "k").text.startswith(LATE)
            assert world.call("a", plays.fetch, "k").text == NOT_MADE
            assert world.call("b", plays.executed) == []
            keeps(world, "a", 0, 0, 0)
            world.call("b", plays.let_go)
            keeps(world, "b", 1, 1, 0)
            assert world.call("a", plays.fetch, "k").text == NOT_MADE
            assert world.call("b", plays.executed) == ["make"]
            keeps(world, "b", 1, 1, 0)

    def test_a_fetch_with_a_shorter_timeout_fails_and_a_later_one_succeeds(self) -> None:
        """The creation goes on: the next fetch has the value."""
        with idle("ab") as world:
            world.call("a", plays.create_with, "k", "b", plays.make_late, 5)
            impatient = world.call("a", plays.fetch, "k", 0.3)
            assert impatient.text == f"{LATE}300 ms) and will now be marked with an error"
            assert 0.3 - EARLY <= impatient.seconds < 1.3
            world.call("b", plays.let_go)
            assert world.call("a", plays.fetch, "k").value == 5
            assert world.call("b", plays.executed) == ["make"]
            world.call("a", plays.drop, "k")
            keeps(world, "b", 0, 0, 0)

    def test_an_rref_may_be_dropped_before_it_is_confirmed(self) -> None:
        """The object is made nevertheless, and then freed."""
        with idle("ab") as world:
            world.call("a", plays.create_and_drop, "b")
            assert world.call("b", plays.await_entered)
            assert world.call("b", plays.executed) == []
            keeps(world, "a", 0, 0, 1)
            world.call("b", plays.let_go)
            keeps(world, "a", 0, 0, 0)
            keeps(world, "b", 0, 0, 0)
            assert world.call("b", plays.executed) == ["make"]

    def test_an_own_rref_that_is_late_cannot_be_fetched(self) -> None:
        """Upstream's issue 71029 says that fetching it ends the process: here it is an error, and the role goes on, as
        long as it does not drop it."""
        with idle("a") as world:
            late = world.call("a", plays.own_copy_that_is_late)
            assert late.error == "RuntimeError"
            assert late.text == NOT_MADE
            assert world.wait() == {"a": Returned(None)}
