"""Delayed replies: a timer sends each one, unless RPC has shut down first."""

from __future__ import annotations

import threading
from collections.abc import Callable

# How long closing waits for an answer that is being sent (seconds).
CLOSE_SECONDS = 10


class DelayedReplies:
    """The delayed replies of one callee, in its process. Thread-safe.

    An answer after the agent's end would crash the process (torch 2.13: SIGSEGV in the callback that pickles it).
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pending: dict[threading.Timer, Callable[[], None]] = {}
        self._answering = 0
        self._closed = False

    def answer(self, seconds: float, effect: Callable[[], None], give: Callable[[], None]) -> None:
        """After so many seconds, record the ``effect`` and then ``give`` the answer, in a thread of its own."""

        def send() -> None:
            with self._changed:
                if self._pending.pop(timer, None) is None:
                    return
                self._answering += 1
            try:
                effect()
                give()
            finally:
                with self._changed:
                    self._answering -= 1
                    self._changed.notify_all()

        timer = threading.Timer(seconds, send)
        timer.daemon = True
        with self._changed:
            if self._closed:
                return
            self._pending[timer] = give
        timer.start()

    def close(self, *, give: bool) -> None:
        """Accept no further answers. Give the pending ones at once, without their effect, or never (``give=False``)."""
        with self._changed:
            self._closed = True
            pending, self._pending = self._pending, {}
            self._changed.wait_for(lambda: not self._answering, CLOSE_SECONDS)
        for timer, answer in pending.items():
            timer.cancel()
            if give:
                answer()
