"""Behaviours of torch that no code here depends on, pinned for docs/behaviours.md."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch.distributed.rpc as rpc

from faults.plan import Plan
from faults.run.runs import scope
from reference.outcome import Outcome, Overdue, Returned
from reference.world import launch


def make() -> int:
    """Runs on the role itself."""
    return 42


def own_value(timeout: float) -> int:
    """Runs on the role: the value of an object that it has made on itself by a call."""
    rref = rpc.remote("a", make, timeout=timeout)
    value: int = rref.local_value()
    return value


def own_value_under(plan: str, folder: Path, deadline: float) -> Outcome:
    with (
        scope(Plan.parse(plan), folder) as arguments,
        launch({"a": partial(own_value, 0.2)}, deadline=deadline, **arguments) as world,
    ):
        return world.wait()["a"]


def test_an_own_rref_that_is_never_made_is_waited_for_for_ever(tmp_path: Path) -> None:
    """torch 2.13: `remote`'s timeout of 0.2 s passes, `local_value` has none, and the role ends at the deadline."""
    assert own_value_under("seed=0", tmp_path / "healthy", 60) == Returned(42)
    lost = own_value_under(f"Drop site={__name__}:make role=a nth=1 side=request", tmp_path / "lost", 2)
    assert isinstance(lost, Overdue)
    assert "in own_value" in lost.stacks
