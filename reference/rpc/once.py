"""Count a call once, even if its request arrives twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """Counts the calls of one caller, which numbers them 1, 2, 3, … and makes one after the other.

    Its methods run where the calls arrive, in RPC threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._results: dict[int, T] = {}

    def first(self, number: int) -> bool:
        """Count a call. False if it has been counted before, or a later one has."""
        with self._lock:
            new = number > self._last
            self._last = max(number, self._last)
            return new

    def run(self, number: int, call: Callable[[], T]) -> T:
        """Run ``call`` and return its result; if the request arrives again, return the result of its first arrival.

        A repeated request waits for the first one. A call that failed does not count, so a repeat runs it again.

        Raises:
            ValueError: a later call has arrived already, so no caller waits for this one any more.
        """
        with self._lock:
            if number < self._last:
                raise ValueError(f"call {number} comes again after call {self._last}")
            if number not in self._results:
                self._results = {number: call()}  # only the latest result, because results may be large
                self._last = number
            return self._results[number]
