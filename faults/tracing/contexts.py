"""Remember each autograd context that this process has entered and not left."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from faults.tracing.user_frames import Line, here

# A context's id has the worker's id above these bits, and the worker's number for it below.
BITS = 48


@dataclass
class Open:
    """A context that was entered. ``got``: the number of this event; ``entered``: the object of the ``with`` statement,
    None for `_new_context`."""

    lines: tuple[Line, ...]
    got: int
    entered: weakref.ref[Any] | None = None


class Contexts:
    """The autograd contexts of one process that it has not left. ``count``: numbers the events."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._open: dict[int, Open] = {}
        self._count = count

    def new(self, number: int) -> None:
        """Remember a context that was just made."""
        self._open[number] = Open(here(), self._count())

    def enter(self, number: int, entered: Any) -> None:
        """Remember the object that leaves this context."""
        self._open[number].entered = weakref.ref(entered)

    def leave(self, number: int) -> None:
        """Forget a context that was released."""
        self._open.pop(number, None)
        self._count()

    def clear(self) -> None:
        """Forget everything, as when RPC has shut down."""
        self._open.clear()

    def living(self, since: int) -> Iterator[tuple[int, tuple[Line, ...], bool]]:
        """Yield number and lines of each context that is open and was entered after this event, and whether nothing is
        left that can leave it."""
        for number, each in list(self._open.items()):
            if each.got > since:
                yield number & ((1 << BITS) - 1), each.lines, each.entered is not None and each.entered() is None
