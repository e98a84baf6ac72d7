"""Execute work that comes from many threads in one thread of its own, in the order of its numbers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class PredecessorFailed(RuntimeError):
    """A turn that will never come, since an earlier one failed or is missing. Says which."""


class OrderedExecutor:
    """Admits numbers 0, 1, 2, … one after the other, whatever the order in which they arrive.

    One thread, for two reasons besides the order. Autograd counts its nodes thread by thread, and a backward pass
    prefers those counted last: with every number in a thread of its own, all would be worked on at once and the first
    be done when the last is. And memory that one thread has freed need not be asked for anew in another.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.failure: str | None = None
        self._due = 0
        self._changed = threading.Condition()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ordered")

    def run(self, number: int, work: Callable[[], T]) -> T:
        """Wait for this number's turn and return what ``work`` returns in it.

        Raises:
            PredecessorFailed: an earlier number failed, or did not come within ``timeout`` seconds; or this one came
                before.
        """
        with self._changed:
            came = self._changed.wait_for(lambda: self.failure is not None or self._due >= number, self.timeout)
            if not came:
                self._fail(f"nothing for {self.timeout:g} s from number {self._due}")
            if self.failure is not None:
                raise PredecessorFailed(f"number {number} has no turn: {self.failure}")
            if self._due > number:
                raise PredecessorFailed(f"number {number} has had its turn: {self._due} is due")
        try:
            result = self._thread.submit(work).result()
        except BaseException as error:
            with self._changed:
                self._fail(f"number {number} failed: {type(error).__name__}: {error}")
            raise
        with self._changed:
            self._due = number + 1
            self._changed.notify_all()
        return result

    def _fail(self, reason: str) -> None:
        self.failure = self.failure or reason
        self._changed.notify_all()
