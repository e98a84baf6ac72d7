"""Refer to an object of another process as an RRef does, at no message of its own."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch.distributed.rpc as rpc

# The objects of this process by their numbers; they live as long as somebody else holds them.
_objects: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_numbers = count()


@dataclass(frozen=True)
class Handle:
    """What `handle_of` gives. Sending an RRef in a call costs further messages, because its forks are counted."""

    worker: str
    number: int

    def owner(self) -> str:
        """The name of the worker that made it."""
        return self.worker

    def local_value(self) -> Any:
        """The object itself. Runs on the worker that made the handle.

        Raises:
            KeyError: nobody holds the object any longer.
        """
        return _objects[self.number]


def handle_of(value: Any) -> Handle:
    """A handle to an object of this process, which does not keep it alive."""
    number = next(_numbers)
    _objects[number] = value
    return Handle(rpc.get_worker_info().name, number)
