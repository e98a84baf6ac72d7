"""Refer to an object of another process as an RRef does, but without further messages."""

from __future__ import annotations

import weakref
from itertools import count
from typing import Any, NamedTuple

import torch.distributed.rpc as rpc

# The objects of this process by their numbers. This mapping does not keep them alive.
_objects: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_numbers = count()


class Handle(NamedTuple):
    """A reference that `handle_of` makes. Sending an RRef costs further messages, because its forks are counted."""

    worker: str
    number: int

    def owner(self) -> Any:
        """Return the `WorkerInfo` of the worker that made the handle."""
        return rpc.get_worker_info(self.worker)

    def local_value(self) -> Any:
        """Return the object. Runs on the worker that made the handle.

        Raises:
            KeyError: the object no longer exists.
        """
        return _objects[self.number]


def handle_of(value: Any) -> Handle:
    """Make a handle to an object of this process. The handle does not keep the object alive."""
    number = next(_numbers)
    _objects[number] = value
    return Handle(rpc.get_worker_info().name, number)
