"""Refer to an object of another process as an RRef does, but without further messages."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch.distributed.rpc as rpc

# The objects of this process by their numbers. This mapping does not keep them alive.
_objects: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_numbers = count()


@dataclass(frozen=True)
class Handle:
    """A reference that `handle_of` makes. Sending an RRef costs further messages, because its forks are counted.

    A call to the owner needs the ``number`` only, which costs less to send than the handle.
    """

    worker: str
    number: int

    def owner(self) -> str:
        """The name of the worker that made the handle."""
        return self.worker


def handle_of(value: Any) -> Handle:
    """Make a handle to an object of this process. The handle does not keep the object alive."""
    number = next(_numbers)
    _objects[number] = value
    return Handle(rpc.get_worker_info().name, number)


def local_value(number: int) -> Any:
    """Return the object whose handle has this number. Runs on the worker that made the handle.

    Raises:
        KeyError: the object no longer exists.
    """
    return _objects[number]
