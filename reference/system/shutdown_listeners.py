"""Let other tools know that `reference.world.shutdown` begins, as they know it of ``rpc.shutdown`` by replacing it."""

from __future__ import annotations

from collections.abc import Callable

# Called when the shutdown begins, in its thread, with (graceful, timeout).
listeners: list[Callable[[bool, float], object]] = []


def announce(graceful: bool, timeout: float) -> None:
    for listener in list(listeners):
        listener(graceful, timeout)
