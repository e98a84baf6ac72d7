"""Handles: references to an object of another process, without an RRef's messages."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed.rpc as rpc

from reference.rpc.handle import Handle, handle_of
from reference.world import launch


class Counter:
    """An object that a handle refers to."""

    def __init__(self, start: int) -> None:
        self.value = start


def counted(handle: Handle) -> int:
    """Runs on the handle's owner."""
    counter: Any = handle.local_value()
    counter.value += 1
    return counter.value  # type: ignore[no-any-return]


def call_twice(handle: Handle) -> list[int]:
    """Runs on another worker than the handle's owner."""
    return [rpc.rpc_sync(handle.owner(), counted, args=(handle,)) for _ in range(2)]


def through_another() -> tuple[list[int], int]:
    """Runs on a: b calls with handles of two objects of a."""
    first, second = Counter(10), Counter(20)
    handles = handle_of(first), handle_of(second)
    found = [rpc.rpc_sync("b", call_twice, args=(handle,)) for handle in handles]
    return [*found[0], *found[1]], first.value


def test_each_object_has_a_handle_of_its_own() -> None:
    with launch(["a", "b"]) as world:
        assert world.call("a", through_another) == ([11, 12, 21, 22], 12)


def test_a_handle_does_not_keep_its_object_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc, "get_worker_info", lambda: SimpleNamespace(name="a"))
    counter = Counter(1)
    handle, left = handle_of(counter), weakref.ref(counter)
    assert handle.local_value() is counter
    del counter
    gc.collect()
    assert left() is None
