"""A store for a process group's rendezvous that works over RPC: it needs no port, address or file of its own."""

from __future__ import annotations

import datetime
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
import torch.distributed.rpc as rpc
from torch.distributed.rpc import RRef


def _on_store(store: RRef[Any], method: str, *args: object) -> Any:
    """Runs on the store's owner: call a method of the store."""
    return getattr(store.local_value(), method)(*args)


class RpcStore(dist.Store):  # type: ignore[name-defined, misc]
    """A store that lives on another role. It replaces torch's own TCPStore, which listens on every interface.

    A `wait` occupies one of the owner's RPC threads, of which there are 16 by default.
    """

    def __init__(self, store: RRef[Any], timeout: float) -> None:
        super().__init__()
        self.rref = store
        self.limit = datetime.timedelta(seconds=timeout)

    def set(self, key: str, value: Any) -> None:
        self._call("set", key, value)

    def get(self, key: str) -> bytes:
        value: bytes = self._call("get", key)
        return value

    def add(self, key: str, amount: int) -> int:
        total: int = self._call("add", key, amount)
        return total

    def check(self, keys: list[str]) -> bool:
        found: bool = self._call("check", keys)
        return found

    def wait(self, keys: list[str], timeout: datetime.timedelta | None = None) -> None:
        self._call("wait", keys, timeout or self.limit)

    def _call(self, *args: object) -> Any:
        seconds = self.limit.total_seconds() + 5  # longer than the store's own timeout, whose error says more
        return rpc.rpc_sync(self.rref.owner(), _on_store, args=(self.rref, *args), timeout=seconds)


@contextmanager
def process_group(store: RRef[Any], rank: int, size: int, timeout: float) -> Iterator[None]:
    """During the block, make this process one of a gloo group of ``size`` processes, torch's default group.

    ``store`` refers to a ``dist.HashStore`` that is made for this group alone; ``timeout`` seconds limit each
    collective. After a failure this process can join no other group, because torch has counted the failed one and so
    uses other keys.

    Raises:
        RuntimeError: the other processes did not join in time, or were lost.
    """
    limit = datetime.timedelta(seconds=timeout)
    dist.init_process_group("gloo", store=RpcStore(store, timeout), rank=rank, world_size=size, timeout=limit)
    try:
        yield
    except BaseException as error:
        _let_go(error)
        raise
    finally:
        dist.destroy_process_group()


def _let_go(error: BaseException | None) -> None:
    """Forget the objects in the frames of the failed block, such as DDP's reducer, which keeps the group alive.

    Otherwise the reducer would be freed last, and the group with it: by a thread that holds the GIL and waits for
    gloo's threads, one of which may need the GIL to free a tensor. 12 of 360 runs that lost a trainer hung so.
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
