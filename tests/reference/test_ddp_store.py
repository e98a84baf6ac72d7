"""A process group whose processes meet over RPC."""

from __future__ import annotations

import time
import weakref
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc
from torch.distributed.rpc import RRef

from reference.outcome import Raised, RoleFailed
from reference.rpc.ddp import RpcStore, process_group
from reference.world import World, launch
from tests.support.roles_plain import fail_by_itself, listening_addresses

pytestmark = pytest.mark.world("ps", "a", "b")


def meet(store: RRef[Any], rank: int, timeout: float) -> tuple[torch.Tensor, list[str], bool]:
    """Runs on a and b: a sum over both, where this process listens meanwhile, and whether a group is left."""
    with process_group(store, rank, 2, timeout):
        total = torch.tensor([rank + 1])
        dist.all_reduce(total)
        addresses = listening_addresses()
    return total, addresses, dist.is_initialized()


def meetings(timeout: float, *ranks: int) -> list[tuple[torch.Tensor, list[str], bool]]:
    """Runs on ps."""
    store = RRef(dist.HashStore())  # type: ignore[attr-defined]
    futures = [rpc.rpc_async("ab"[rank], meet, args=(store, rank, timeout)) for rank in ranks]
    return [future.wait() for future in futures]


def test_two_groups_can_follow_each_other(world: World) -> None:
    for _ in range(2):
        for total, addresses, left in world.call("ps", meetings, 20.0, 0, 1):
            assert total.item() == 3
            assert addresses
            assert set(addresses) <= {"127.0.0.1", "::1"}
            assert not left


def test_a_wait_in_vain_ends_with_an_error() -> None:
    with launch(["ps", "a"]) as world:
        start = time.monotonic()
        with pytest.raises(RoleFailed) as caught:
            world.call("ps", meetings, 0.5, 0)
    assert isinstance(caught.value.outcome, Raised)
    assert "DistStoreError" in caught.value.outcome.message
    assert time.monotonic() - start < 10


def fail_in_a_group() -> None:
    """Runs on ps, which is alone in the group: what the failed block held is gone before the error is."""
    held: list[weakref.ref[torch.Tensor]] = []

    def block() -> None:
        tensor = torch.zeros(1)
        held.append(weakref.ref(tensor))
        fail_by_itself()

    try:
        with process_group(RRef(dist.HashStore()), 0, 1, 5.0):  # type: ignore[attr-defined]
            block()
    except Exception:
        assert held[0]() is None
        raise


@pytest.mark.usefixtures("forkserver")
def test_an_error_that_is_its_own_cause_leaves_the_group() -> None:
    with launch(["ps"], deadline=20) as world, pytest.raises(RoleFailed, match=r"^ps raised .*Unlucky: today$"):
        world.call("ps", fail_in_a_group)


def use_store() -> list[Any]:
    """Runs on ps, which is the store's owner too."""
    store = RpcStore(RRef(dist.HashStore()), 5)  # type: ignore[attr-defined]
    store.set("key", "value")
    return [store.get("key"), store.add("count", 2), store.add("count", 3), store.check(["key"]), store.check(["x"])]


def test_every_method_of_the_store_works_over_rpc(world: World) -> None:
    assert world.call("ps", use_store) == [b"value", 2, 5, True, False]
