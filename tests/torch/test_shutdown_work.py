"""The shutdown with work in flight: with grace no started work is lost, without it answers are."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from faults.ledger import ledger
from faults.plan import Plan
from faults.run.runs import scope
from reference.outcome import Returned
from reference.world import launch
from tests.support import roles_rrefs
from tests.support import roles_shutdown as plays
from tests.support.idle import AT_ONCE, GONE, idle, keeps, of
from tests.support.roles_plain import nothing

# Fewer than the RPC threads of a role: the followers' calls to the leader in a shutdown need one, too.
CALLS = 8


def test_a_graceful_shutdown_executes_calls_that_nobody_waits_for_and_nested_ones() -> None:
    """Nobody waits for the calls. None has executed when all roles are in the shutdown. Then they do, and so do those
    that they make, which are sent when their sender, their caller and their callee already wait in it."""
    with idle() as world:
        outcomes = world.run(
            {
                "a": partial(plays.open_gate_when_they_wait, "c"),
                "b": partial(plays.send_nested_and_shutdown, "a", "c", CALLS),
                "c": plays.shutdown,
            }
        )
        before, leader = of(outcomes, "a")
        assert before == []
        assert [leader.error, of(outcomes, "b").error, of(outcomes, "c").error] == ["", "", ""]
        assert world.call("a", plays.executed) == world.call("c", plays.executed) == list(range(CALLS))


def test_without_grace_calls_execute_and_their_answers_are_lost() -> None:
    with idle("ab") as world:
        world.call("b", plays.keep, "a", CALLS)
        assert world.call("a", plays.await_entered, CALLS)
        assert world.call("b", plays.kept) == [None] * CALLS
        outcomes = world.run({"b": partial(plays.shutdown, graceful=False)})
        assert of(outcomes, "b").error == ""
        assert of(outcomes, "b").seconds < AT_ONCE
        ends = world.call("b", plays.kept)
        assert [end.error for end in ends] == ["RuntimeError"] * CALLS
        assert all(end.text.startswith(GONE) for end in ends)
        assert world.call("a", plays.finish, CALLS) == list(range(CALLS))


def left(folder: Path, role: str) -> tuple[int, int, int, int]:
    """(owner RRefs, forks, own pending ones, autograd contexts) when ``role`` had no other role to wait for."""
    (found,) = (each.details for each in ledger.read(folder).of("left") if each.role == role)
    names = ("num_owner_rrefs", "num_forks", "num_pending_users", "num_autograd_contexts")
    return tuple(found[name] for name in names)


def test_a_graceful_shutdown_leaves_no_dropped_rrefs(tmp_path: Path) -> None:
    """With grace the owner has none left. A user that leaves without it leaves those that it still holds."""
    leak = "Detected RRef Leaks during shutdown"
    with (
        scope(Plan(), tmp_path / "graceful", record=True) as arguments,
        launch({"a": partial(plays.create_and_drop, "b", CALLS), "b": nothing}, **arguments) as world,
    ):
        assert set(world.wait().values()) == {Returned(None)}
        assert leak not in world.log("b")
    assert left(tmp_path / "graceful", "a") == left(tmp_path / "graceful", "b") == (0, 0, 0, 0)
    with scope(Plan(), tmp_path / "not", record=True) as arguments, launch(["a", "b"], **arguments) as world:
        world.call("a", roles_rrefs.create, "k", "b", 1)
        world.call("a", roles_rrefs.create, "l", "b", 1)
        keeps(world, "b", 2, 2, 0)
        for role in "ab":
            assert world.call(role, partial(plays.shutdown, graceful=False)).error == ""
        assert leak in world.log("b")
    assert left(tmp_path / "not", "b") == (2, 2, 0, 0)
