"""RPC started again in the same process; torch 2.13."""

from __future__ import annotations

from tests.support import roles_shutdown as plays
from tests.support.idle import idle


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
