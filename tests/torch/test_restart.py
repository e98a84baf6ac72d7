"""RPC started again: in the same process, and by a restarted one; torch 2.13."""

from __future__ import annotations

import threading
from functools import partial

from reference.outcome import Outcome, Overdue
from reference.world import World
from tests.support import roles_shutdown as plays
from tests.support.idle import idle, kill, of

# Seconds to watch something that waits forever; and RPC's own timeout, which does not end it.
WAIT = 2.0
LIMIT = 0.5


def test_a_process_keeps_its_rank_for_life() -> None:
    """Distributed autograd is never taken down; the name may change."""
    with idle("ab") as world:
        world.run(dict.fromkeys("ab", plays.shutdown))
        refused = world.call("b", plays.start, "b", 0, 1, str(world.folder / "other"))
        text = "Container is already initialized with worker_id: 1, cannot initialize with different worker_id: 0"
        assert refused.error == "RuntimeError"
        assert refused.text == text
        assert world.call("a", plays.start, "z", 0, 1, str(world.folder / "alone")).error == ""
        assert world.call("a", plays.ask, "z").value == 2.0


def survivor_and_restarted(world: World, fresh: World, generation: int | None) -> dict[str, Outcome]:
    """``a`` has been through one start more than ``b``, which was killed and is another process now."""
    kill(world, "b")
    for who, role in ((world, "a"), (fresh, "b")):
        assert who.call(role, partial(plays.shutdown, graceful=False)).error == ""
    assert world.call("a", plays.start, "a", 0, 1, str(world.folder / "alone")).error == ""
    assert world.call("a", plays.shutdown).error == ""
    place = str(world.folder / "together")
    ends: dict[str, Outcome] = {}
    timeout = 60 if generation else LIMIT
    deadline = 30 if generation else WAIT

    def restart(who: World, role: str, rank: int) -> None:
        ends.update(who.run({role: partial(plays.start, role, rank, 2, place, generation, timeout)}, deadline=deadline))

    other = threading.Thread(target=restart, args=(fresh, "b", 1))
    other.start()
    try:
        restart(world, "a", 0)
    finally:
        other.join()
    return ends


def test_a_restarted_process_cannot_come_back() -> None:
    """Both hang in `init_rpc`, even with a timeout (upstream issue 40936): each counts its own starts, and waits
    under another number.

    `world` starts a fresh one instead. With an agreed number, which is private, they meet.
    """
    with idle("ab") as world, idle("zb") as fresh:
        hung = survivor_and_restarted(world, fresh, None)
    assert {type(end) for end in hung.values()} == {Overdue}
    assert all("in init_rpc" in end.stacks for end in hung.values() if isinstance(end, Overdue))
    with idle("ab") as world, idle("zb") as fresh:
        met = survivor_and_restarted(world, fresh, 7)
        assert [of(met, role).error for role in "ab"] == ["", ""]
        assert world.call("a", plays.ask, "b").value == 2.0
        assert fresh.call("b", plays.ask, "a").value == 2.0
