"""Behaviours of torch that no room of ours needs, pinned: docs/behaviours.md."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch.distributed.rpc as rpc

from faults.plan import Plan
from faults.scope import scope
from reference.outcome import Overdue, Returned
from reference.world import launch


def make() -> int:
    """Runs on the role itself."""
    return 42


def own_value(timeout: float) -> int:
    """Runs on the role: what it has made on itself by a call."""
    rref = rpc.remote("a", make, timeout=timeout)
    value: int = rref.local_value()
    return value


def test_an_own_rref_that_is_never_made_is_waited_for_for_ever(tmp_path: Path) -> None:
    """torch 2.13: `remote`'s timeout of 0.2 s passes, `local_value` has none, and the role ends at the deadline."""
    outcomes = {}
    for name, plan in {"healthy": "seed=0", "lost": f"Drop site={__name__}:make role=a nth=1 side=request"}.items():
        with (
            scope(Plan.parse(plan), tmp_path / name) as arguments,
            launch({"a": partial(own_value, 0.2)}, deadline=3, **arguments) as world,
        ):
            outcomes[name] = world.wait()["a"]
    assert outcomes["healthy"] == Returned(42)
    assert isinstance(outcomes["lost"], Overdue)
    assert "in own_value" in outcomes["lost"].stacks
