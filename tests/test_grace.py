"""Roles that do not answer are given up before their deadline: stuck in torch's start, or stopped."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reference.kernel import is_stopped
from reference.outcome import Outcome, Overdue, PeerLost, Raised, Returned, WorldError
from reference.world import World, launch
from tests import grace_plays, plays

# Far beyond what any of these takes: an end that it makes says "overdue".
DEADLINE = 20
LOST = f"{PeerLost.__module__}.{PeerLost.__qualname__}"


def played(roles: dict[str, Any], **arguments: Any) -> dict[str, Outcome]:
    """How they end."""
    with launch(roles, **{"deadline": DEADLINE, **arguments}) as world:
        return world.wait()


def stacks(outcome: Outcome) -> str:
    assert isinstance(outcome, Overdue)
    return outcome.stacks


def test_a_world_that_is_short_of_threads_ends() -> None:
    """How each role ends is left to chance: where it cannot make a thread torch raises, aborts, or is stuck."""
    roles = dict.fromkeys("ab", plays.nothing)
    outcomes = played(roles, before=grace_plays.be_short_of_threads, grace=2)
    assert not any(isinstance(outcome, Returned) for outcome in outcomes.values()), outcomes
    assert not any(str(outcome) == "was overdue" for outcome in outcomes.values()), outcomes


def test_a_role_that_is_stuck_in_torchs_start_is_ended_and_says_where(tmp_path: Path) -> None:
    """All of them: in torch the constructor of the other one waits for its name, with Python's lock."""
    outcomes = played(dict.fromkeys("ab", plays.nothing), before=partial(grace_plays.a_is_stuck, tmp_path), grace=1)
    for outcome in outcomes.values():
        assert str(outcome) == "was stuck in the start of RPC, and was ended after 1 s"
        assert "in start_agent" in stacks(outcome)
    assert "in hold_the_gil" in stacks(outcomes["a"])


def test_a_role_that_is_stuck_does_not_hear_of_a_loss(tmp_path: Path) -> None:
    before = partial(grace_plays.a_is_stuck_and_b_dies, tmp_path)
    outcomes = played(dict.fromkeys("ab", plays.nothing), before=before, grace=3)
    assert str(outcomes["a"]) == ("was stuck: it did not hear that b was killed by SIGKILL, and was ended after 3 s")
    assert "in hold_the_gil" in stacks(outcomes["a"])


def test_who_waits_in_its_start_and_answers_is_not_stuck() -> None:
    roles = dict.fromkeys("ab", plays.nothing)
    with launch(roles, before=grace_plays.a_waits_in_its_start, deadline=4, grace=0.5) as world:
        outcomes = world.wait()
    assert str(outcomes["a"]) == "was overdue"


def test_who_has_not_begun_to_start_is_not_stuck_and_holds_nobody_up() -> None:
    before = partial(grace_plays.a_takes_its_time, 2)
    with launch(dict.fromkeys("ab", plays.nothing), before=before, deadline=DEADLINE, grace=0.5) as world:
        assert world.wait() == {"a": Returned(None), "b": Returned(None)}


def test_a_stopped_role_is_ended_once_the_others_have_ended_or_wait() -> None:
    outcomes = played({"a": grace_plays.stop, "b": grace_plays.fail, "c": plays.nothing}, grace=1)
    assert str(outcomes["a"]) == "was stopped, while all others had ended or waited, and was ended after 1 s"
    assert "role.py" in stacks(outcomes["a"])  # it goes on to write them, so `stop` itself may have ended by then
    assert isinstance(outcomes["c"], Raised)
    assert outcomes["c"].type == LOST


def wait_until_stopped(world: World, role: str) -> None:
    due = time.monotonic() + 30
    while not is_stopped(world.pids[role]):
        assert time.monotonic() < due
        time.sleep(0.01)


def test_a_stopped_role_that_goes_on_within_the_grace_is_not_ended() -> None:
    with launch({"a": grace_plays.stop, "b": grace_plays.fail}, deadline=DEADLINE, grace=30) as world:
        wait_until_stopped(world, "a")
        os.kill(world.pids["a"], signal.SIGCONT)
        stopped = world.wait()["a"]
    assert isinstance(stopped, Raised)
    assert (stopped.type, stopped.message) == (LOST, "b raised tests.plays.Unlucky: today")


@pytest.mark.parametrize(
    ("roles", "rest"),
    [
        ({"a": grace_plays.stop, "b": plays.nothing}, "was overdue"),  # nobody has ended
        (
            {"a": grace_plays.stop, "b": grace_plays.fail, "c": grace_plays.wait_for_ever},
            "was overdue",
        ),  # one still plays
    ],
)
def test_a_stopped_role_is_left_alone_while_others_may_go_on(roles: dict[str, Any], rest: str) -> None:
    with launch(roles, deadline=4, grace=0.2) as world:
        assert str(world.wait()["a"]) == rest


def test_a_grace_is_a_number_of_seconds() -> None:
    with pytest.raises(WorldError, match=r"^a grace is a positive number of seconds, at most 1e\+06, got 0$"):
        launch(["a"], grace=0)
