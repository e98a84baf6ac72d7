"""A method of a remote object: called where the object lives, with arguments by place and by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch.distributed.rpc as rpc

from reference.rpc.remote_method import _remote_method
from reference.world import World

pytestmark = pytest.mark.world("a", "b")


class Till:
    """Lives on ``b``."""

    def __init__(self) -> None:
        self.held = 0

    def put(self, amount: int, times: int = 1) -> int:
        self.held += amount * times
        return self.held


def put_twice() -> list[Any]:
    """Runs on a."""
    till = rpc.remote("b", Till)
    return [_remote_method(Till.put, till, 3), _remote_method(Till.put, till, 2, times=5)]


def test_the_object_itself_is_called_with_all_arguments(world: World) -> None:
    assert world.call("a", put_twice) == [3, 13]
