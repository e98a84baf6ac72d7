"""Run work from many threads in one thread, in the order of its numbers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class PredecessorFailed(RuntimeError):
    """Work will never run, because work with an earlier number failed or is missing. Says which."""


class PredecessorSilent(PredecessorFailed, TimeoutError):
    """Work will never run, because work with an earlier number did not arrive in time."""


class OrderedExecutor:
    """Runs work with the numbers 0, 1, 2, … in this order, whatever the order in which it arrives.

    One thread runs everything, for two reasons besides the order. First, autograd counts its nodes thread by thread,
    and a backward pass prefers nodes that were counted last: with one thread per number it would work on all numbers
    at once, and the first would be done only when the last is. Second, memory that the thread has freed is used again.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.failure: str | None = None
        self._due = 0
        self._changed = threading.Condition()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ordered")

    def run(self, number: int, work: Callable[[], T]) -> T:
        """Wait until all earlier numbers are done, run ``work`` and return its result.

        Raises:
            PredecessorFailed: an earlier number failed, or this number has been run before.
            PredecessorSilent: an earlier number did not arrive within ``timeout`` seconds.
        """
        with self._changed:
            came = self._changed.wait_for(lambda: self.failure is not None or self._due >= number, self.timeout)
            if not came:
                self._fail(f"nothing for {self.timeout:g} s from number {self._due}")
            if self.failure is not None:
                kind = PredecessorFailed if came else PredecessorSilent
                raise kind(f"number {number} cannot run: {self.failure}")
            if self._due > number:
                raise PredecessorFailed(f"number {number} has run before, wanted number {self._due}")
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
