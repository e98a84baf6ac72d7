"""Answer calls: at once, later, or by a future of the program's own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.futures import Future


def failing(result: Any, error: Exception) -> tuple[Any, Exception | None]:
    """Replace the answer by the error: at once, or if the answer is a future, when that completes."""

    def fail(_: object) -> NoReturn:
        raise error

    return (result.then(fail), None) if is_future(result) else (None, error)


def is_future(value: object) -> bool:
    """Whether it is a future. `then` returns one of the public class's base class only."""
    return isinstance(value, torch._C.Future)


def new_future() -> Future[Any]:
    """Make a future that can hold tensors of every device in use here."""
    count = torch.cuda.device_count() if torch.cuda.is_initialized() else 0
    return Future(devices=[torch.device("cuda", index) for index in range(count)])


def completed(value: Any) -> Future[Any]:
    """Return a future that has its value already."""
    future = new_future()
    future.set_result(value)
    return future


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
        self._closed = self._give = False

    def answer(self, seconds: float, effect: Callable[[], None], give: Callable[[], None]) -> None:
        """After so many seconds, record the ``effect`` and then ``give`` the answer, in a thread of its own.

        After `close` give it at once or never, as that has the pending ones.
        """

        def send() -> None:
            with self._changed:
                if self._pending.pop(timer, None) is None:
                    return
                self._answering += 1
            self._answer(effect, give)

        timer = threading.Timer(seconds, send)
        timer.daemon = True
        with self._changed:
            if not self._closed:
                self._pending[timer] = give
                timer.start()
                return
            if not self._give:
                return
            self._answering += 1
        self._answer(give)

    def _answer(self, *steps: Callable[[], None]) -> None:
        """Do this for an answer that is counted."""
        try:
            for step in steps:
                step()
        finally:
            with self._changed:
                self._answering -= 1
                self._changed.notify_all()

    def close(self, *, give: bool) -> None:
        """Accept no further answers. Give the pending ones at once, without their effect, or never (``give=False``)."""
        with self._changed:
            self._give = give and (self._give or not self._closed)  # a second time, the agent may have ended
            self._closed = True
            pending, self._pending = self._pending, {}
            self._changed.wait_for(lambda: not self._answering, CLOSE_SECONDS)
        for timer, answer in pending.items():
            timer.cancel()
            if give:
                answer()
