"""Wait for all participants of a piece of work; end the wait when one fails or is silent, and name it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import torch

from reference.system.text import cause_of

Futures = Mapping[str, torch.futures.Future[Any]]

# Seconds that a role stays after a failure, so that the others get its last answers, which give the reason.
FAREWELL_SECONDS = 2.0


class ParticipantFailed(RuntimeError):
    """A participant failed, or was silent for too long. The text names participants and causes, first to last."""


class ParticipantSilent(ParticipantFailed, TimeoutError):
    """A participant was silent for too long."""


def silence(seconds: float, names: Collection[str]) -> str:
    """Say why a wait for these participants took too long."""
    return f"nothing for {seconds} s from {', '.join(names)}"


class Liveness:
    """Notices the first failure among participants, in a thread of its own: that one is silent, or what `fail` is told.

    `fail` runs no callback in its caller's thread, so it may be called under any lock.

    Args:
        names: the participants.
        timeout: seconds that one from whom something is expected may be silent.
    """

    def __init__(self, names: Collection[str], timeout: float) -> None:
        self.names, self.timeout = list(names), timeout
        self.last = dict.fromkeys(self.names, time.monotonic())
        self.ended: set[str] = set()
        self.reason: str | None = None  # of the first failure
        self.silent: list[str] = []
        self.failed: torch.futures.Future[None] = torch.futures.Future()
        self._results: dict[str, Any] = {}
        self._errors: dict[str, Exception] = {}
        self._news: queue.SimpleQueue[str] = queue.SimpleQueue()  # whose call has ended; "" for a failure elsewhere
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._closed = False
        threading.Thread(target=self._watch, name="liveness", daemon=True).start()

    def heartbeat(self, name: str) -> None:
        """Note that a participant has called. Runs in RPC threads."""
        self.last[name] = time.monotonic()

    def expected(self) -> list[str]:
        """Return the participants that must not be silent now: those whose calls have not ended."""
        return [name for name in self.names if name not in self.ended]

    def fail(self, reason: str) -> None:
        """End every wait with this reason, unless there has been a failure before."""
        with self._changed:
            self._fail(reason)

    def close(self) -> None:
        """Stop watching: nothing more is expected."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def gather(self, calls: Futures, *, stay: float = 0.0) -> dict[str, Any]:
        """Wait for every participant's call and return the results in the order of ``calls``.

        Call it once, as soon as the calls are made: until it notes that a call has ended, its participant may not be
        silent.

        Args:
            stay: seconds to wait after a failure until the others have heard of it, and so have ended. The caller's
                process may end after that, and must not lose answers that are still to be sent.

        Raises:
            ParticipantFailed: a call failed, or `fail` was called. Names all that failed within ``stay``.
            ParticipantSilent: a participant was silent.
        """
        for name, call in calls.items():
            call.add_done_callback(partial(self._put, name))
        self.failed.add_done_callback(partial(self._put, ""))
        self._note_ends(calls, lambda: calls.keys() == self.ended or bool(self._errors) or self.failed.done())
        first = self.reason or next(self._errors_told(), "")
        if first:
            self.fail(first)
            first = str(self.reason)  # there may have been another failure before, and a round gives its number
            self._note_ends(calls, lambda: calls.keys() - self.ended <= {*self.silent}, stay)
        self.close()
        if not first:
            return {name: self._results[name] for name in calls}
        told = [reason for reason in self._errors_told() if reason not in first]
        others = [reason for reason in told if first not in reason]  # some only pass the first one on
        late = [name for name in calls if name not in self.ended and name not in self.silent]
        kind = ParticipantSilent if self.silent else ParticipantFailed
        missed = [silence(stay, late)] if stay and late else []
        error = kind("; ".join([first, *others, *missed]))
        raise error from next(iter(self._errors.values()), None)

    def _note_ends(self, calls: Futures, enough: Callable[[], bool], seconds: float = threading.TIMEOUT_MAX) -> None:
        """Note the calls that end, first to last, until ``enough`` is true or for these seconds."""
        until = time.monotonic() + seconds
        while not enough() and (left := until - time.monotonic()) > 0:
            with suppress(queue.Empty):
                if name := self._news.get(timeout=left):
                    self.ended.add(name)
                    try:
                        self._results[name] = calls[name].value()
                    except Exception as error:
                        self._errors[name] = error

    def _errors_told(self) -> Iterator[str]:
        for name, error in self._errors.items():
            yield f"{name} failed: {cause_of(error)}"

    def _put(self, name: str, _: object) -> None:
        self._news.put(name)

    def _fail(self, reason: str, silent: Collection[str] = ()) -> None:
        if self.reason is None:
            self.reason, self.silent = reason, list(silent)
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while self.reason is None and not self._closed:
                now, expected = time.monotonic(), self.expected()
                left = min((self.last[name] + self.timeout - now for name in expected), default=self.timeout)
                if left > 0:
                    self._changed.wait(min(left, threading.TIMEOUT_MAX))
                else:
                    silent = [name for name in expected if self.last[name] + self.timeout <= now]
                    self._fail(silence(self.timeout, silent), silent)
        if self.reason is not None:
            # First the wait in `gather`: a participant that hears of the failure fails too, and is not its reason.
            self.failed.set_result(None)
            self.answer()

    def answer(self) -> None:
        """Tell participants that wait of the failure. Runs in the watching thread."""
