"""The shutdown with a dead, stopped or cut-off role: torch's own, without a limit and with one.

torch 2.13. The leader is ``a``, the smallest name. Seconds are upper bounds with room for a busy machine; what waits
forever is `Overdue` at a deadline of `WAIT`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from faults.plan import Plan
from faults.run.runs import scope
from reference.outcome import Killed, Raised
from reference.world import launch
from tests.support import roles_shutdown as plays
from tests.support.answers import Answer
from tests.support.idle import AT_ONCE, EARLY, GONE, LATE, NOT_STARTED, idle, kill, of, overdue_in
from tests.support.networks import require

pytestmark = pytest.mark.usefixtures("forkserver")

# The limit that a shutdown is given, and RPC's own (seconds).
LIMIT = 0.3
RPC_LIMIT = 1.5
# Seconds to watch something that waits forever.
WAIT = 1.0
TIMED_OUT = f"Followers ['b'] timed out in _all_gather after {LIMIT:.2f} seconds. The first exception is "

within = partial(plays.shutdown, timeout=LIMIT)
# For ``a`` beside ``c``. Otherwise ``c`` may have given up, on a busy machine, before ``a`` begins.
within_like_c = partial(plays.shutdown_when_they_have_begun, "c", timeout=LIMIT)


def assert_ended_in_the_store(given_up: Answer) -> None:
    """A shutdown waited in the store after its own limit, for once or twice RPC's, and names nobody."""
    assert given_up.error == "DistStoreError"
    assert given_up.text.lower().startswith("wait timeout after 1500ms")
    assert LIMIT + RPC_LIMIT - 2 * EARLY <= given_up.seconds < LIMIT + 2 * RPC_LIMIT + AT_ONCE


class TestHealthy:
    def test_a_role_that_shuts_down_itself_leaves_world_nothing_to_shut_down(self) -> None:
        """Which role's error is seen first is chance; no role succeeds silently."""
        with launch(dict.fromkeys("ab", plays.shutdown), deadline=30) as world:
            outcomes = world.wait()
        texts = {outcome.message for outcome in outcomes.values() if isinstance(outcome, Raised)}
        assert texts <= {NOT_STARTED, *(f"{role} raised RuntimeError: {NOT_STARTED}" for role in "ab")}
        assert NOT_STARTED in texts
        assert len([outcome for outcome in outcomes.values() if isinstance(outcome, Raised)]) == 2


class TestDeadFollower:
    @pytest.mark.long
    def test_torch_with_a_limit_ends_after_a_dead_follower(self) -> None:
        """The leader ends after its timeout; another follower after that plus twice RPC's own, in a store's wait."""
        with idle(options={"rpc_timeout": RPC_LIMIT}) as world:
            kill(world, "b")
            outcomes = world.run({"a": within_like_c, "c": within})
            assert world.call("a", plays.shutdown).text == NOT_STARTED  # gone all the same
        leader, follower = of(outcomes, "a"), of(outcomes, "c")
        assert leader.text.startswith(tuple(TIMED_OUT + gone for gone in GONE))
        assert LIMIT - EARLY <= leader.seconds < LIMIT + AT_ONCE
        assert_ended_in_the_store(follower)


def leader_dies(rest: Callable[[], object]) -> dict[str, Callable[[], object]]:
    """The leader dies when both others wait for it."""
    return {"a": partial(plays.die_when_they_wait, "b", "c"), "b": rest, "c": rest}


class TestDeadLeader:
    def test_torch_fails_if_the_leader_was_dead_before(self) -> None:
        with idle() as world:
            kill(world, "a")
            outcomes = world.run(dict.fromkeys("bc", plays.shutdown))
        for role in "bc":
            assert of(outcomes, role).text.startswith(GONE)
            assert of(outcomes, role).seconds < AT_ONCE

    def test_torch_waits_if_the_leader_dies_during_the_shutdown(self) -> None:
        with idle() as world:
            outcomes = world.run(leader_dies(plays.shutdown), deadline=WAIT)
        assert outcomes["a"] == Killed(signal.SIGKILL)
        assert all(overdue_in(outcomes[role], "_all_gather") for role in "bc")

    @pytest.mark.long
    def test_torch_with_a_timeout_ends_if_the_leader_dies_during_the_shutdown(self) -> None:
        """Their errors do not say that the leader is gone, but that the store is, which its process held."""
        with idle(options={"rpc_timeout": RPC_LIMIT}) as world:
            outcomes = world.run(leader_dies(within))
        assert outcomes["a"] == Killed(signal.SIGKILL)
        for role in "bc":
            given_up = of(outcomes, role)
            assert given_up.error == "DistNetworkError", given_up
            assert LIMIT - EARLY <= given_up.seconds < LIMIT + AT_ONCE


@pytest.mark.long
def test_torch_with_a_limit_goes_on_and_names_no_role() -> None:
    """The leader's wait ends without an error, and the next wait, in the store, has RPC's own limit."""
    with idle(options={"rpc_timeout": RPC_LIMIT}) as world:
        outcomes = world.run({"a": within_like_c, "c": within})
    for role in "ac":
        assert_ended_in_the_store(of(outcomes, role))


@pytest.mark.long
def test_torch_with_a_limit_gives_up_a_paused_role() -> None:
    """The leader gives up after its timeout, and waits as long again to report it."""
    with idle(options={"rpc_timeout": RPC_LIMIT}) as world:
        os.kill(world.pids["b"], signal.SIGSTOP)
        leader = of(world.run({"a": within_like_c, "c": within}), "a")
    assert leader.text.startswith(TIMED_OUT + LATE)
    assert 2 * (LIMIT - EARLY) <= leader.seconds < 2 * LIMIT + AT_ONCE


@pytest.mark.long
def test_torch_with_a_limit_gives_up_a_role_that_is_cut_off(tmp_path: Path) -> None:
    """``b`` is cut off when it reports its step."""
    require()
    plan = Plan.parse("Partition role=b direction=both at=step:1@b")
    with scope(plan, tmp_path, list("abc")) as arguments, launch(list("abc"), deadline=60, **arguments) as world:
        for caller in "abc":
            for callee in "abc":
                assert world.call(caller, plays.ask, callee).value == 2.0
        world.call("b", plays.step)
        outcomes = world.run(dict.fromkeys("ab", within))
    leader, cut_off = of(outcomes, "a"), of(outcomes, "b")
    assert leader.text.startswith(TIMED_OUT + LATE)
    assert 2 * (LIMIT - EARLY) <= leader.seconds < 2 * LIMIT + AT_ONCE
    assert cut_off.text.startswith(LATE)
    assert LIMIT - EARLY <= cut_off.seconds < LIMIT + AT_ONCE


def test_a_shutdown_in_a_finally_hides_the_error_until_everybody_is_there() -> None:
    with idle("ab") as world:
        hidden = world.run({"a": plays.raise_in_a_shutdown_first}, deadline=WAIT)
    assert overdue_in(hidden["a"], "raise_in_a_shutdown_first")
    with idle("ab") as world:
        shown = world.run({"a": plays.raise_in_a_shutdown_first, "b": plays.shutdown})
    assert isinstance(shown["a"], Raised)
    assert shown["a"].type == "tests.support.roles_plain.Unlucky"
    assert shown["a"].message == "today"
    assert of(shown, "b").error == ""
