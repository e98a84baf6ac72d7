"""The default timeout of remote calls, for a block."""

from __future__ import annotations

import torch.distributed.rpc as rpc

from reference.rpc.timeouts import rpc_timeout
from reference.world import launch


def limits() -> list[float]:
    """Runs on a role: before, inside, and after a block that fails."""
    now = rpc.get_rpc_timeout  # type: ignore[attr-defined]
    found = [now()]
    try:
        with rpc_timeout(7.5):
            found.append(now())
            raise KeyError
    except KeyError:
        return [*found, now()]


def test_the_timeout_holds_only_inside_the_block() -> None:
    with launch(["a"], options={"rpc_timeout": 33}) as world:
        assert world.call("a", limits) == [33, 7.5, 33]
