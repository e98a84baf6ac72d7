"""The default timeout of remote calls, for a block."""

from __future__ import annotations

import torch.distributed.rpc as rpc

from reference.rpc.timeouts import rpc_timeout
from reference.world import launch


def limits() -> list[float]:
    """Runs on a role: before, inside, and after a block that fails."""
    found = [rpc.get_rpc_timeout()]
    try:
        with rpc_timeout(7.5):
            found.append(rpc.get_rpc_timeout())
            raise KeyError
    except KeyError:
        return [*found, rpc.get_rpc_timeout()]


def test_the_timeout_holds_only_inside_the_block() -> None:
    with launch(["a"], options={"rpc_timeout": 33}) as world:
        assert world.call("a", limits) == [33, 7.5, 33]
