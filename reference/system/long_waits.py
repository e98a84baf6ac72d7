"""Wait in short steps, so that the main thread handles a signal soon.

Python handles a signal between two of its instructions. If the signal arrives just before a wait, or in another thread,
the main thread handles it only when the wait ends.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

Result = TypeVar("Result")

# The longest step (seconds).
STEP = 0.2


def wait_until(is_done: Callable[[float], object], seconds: float = math.inf) -> bool:
    """Wait until ``is_done``, which gets the seconds that it may wait, returns something true.

    Return whether it did so within ``seconds``.
    """
    due = time.monotonic() + seconds
    while True:
        left = max(0.0, due - time.monotonic())
        if is_done(min(STEP, left)):
            return True
        if not left:
            return False


def result_of(future: Future[Result]) -> Result:
    """Wait for a future, and return its result or raise its exception."""
    wait_until(lambda step: future.done() or wait([future], step).done)  # one that is cancelled may never be notified
    return future.result()
