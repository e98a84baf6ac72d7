"""Wait for the results of all participants; end the wait when one fails or is silent, and name it."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from reference.system.error_text import cause_of

Futures = Mapping[str, torch.futures.Future[Any]]

# How long a role that has failed stays, so that the others get its last answers. These say why.
FAREWELL_SECONDS = 2.0


class ParticipantFailed(RuntimeError):
    """A participant failed, or was silent for too long. Says who, and why, first to last in ``reasons``."""

    def __init__(self, *reasons: str) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


@dataclass(frozen=True)
class Failure:
    """Why a wait ended before everybody had a result. ``silent``: from whom nothing more is expected."""

    reason: str
    silent: Collection[str] = ()


def silence(seconds: float, names: Collection[str]) -> str:
    """The reason of a wait for these participants that took too long."""
    return f"nothing for {seconds} s from {', '.join(names)}"


def gather(
    futures: Futures,
    on_failure: Callable[[str], object] | None = None,
    *,
    failed: torch.futures.Future[Failure] | None = None,
    cause_seconds: float = 0.0,
    stay: float = 0.0,
    cause: Callable[[Exception], str] = cause_of,
) -> dict[str, Any]:
    """Every participant's result, in the order of ``futures``. Has no limit of its own.

    Args:
        on_failure: called with the first failure's reason; it has to end the others' waits.
        failed: completed by somebody else who notices a failure, such as a `Barrier` that is not complete in time.
        cause_seconds: seconds from then on in which a participant may fail, too, and so say more about the reason.
        stay: seconds to wait after a failure until the others, too, have ended, so have heard of it.
        cause: what the error of a participant says.

    Raises:
        ParticipantFailed: a participant failed, or ``failed`` is completed. Names everybody who failed within ``stay``.
    """
    calls = _Calls(futures, cause)
    if failed is None:
        failed = torch.futures.Future()
    failed.add_done_callback(calls.wake)
    while calls.running and not calls.failures and not failed.done():
        calls.next(None)
    if not failed.done():
        return calls.end(None, on_failure, stay)
    calls.wait(cause_seconds, lambda: bool(calls.failures))
    better = calls.reasons() if cause_seconds else []
    noticed = failed.value()
    return calls.end(Failure([*better, noticed.reason][0], noticed.silent), on_failure, stay)


class Liveness:
    """When each participant was last heard. `heartbeat` runs in RPC threads, `gather` in the thread that waits."""

    def __init__(self, names: Collection[str], timeout: float, waiting: Callable[[], Collection[str]] = tuple) -> None:
        """``timeout``: seconds of silence; ``waiting``: who waits for an answer just now, so has to be silent."""
        self.timeout = timeout
        self.waiting = waiting
        self.last = dict.fromkeys(names, time.monotonic())

    def heartbeat(self, name: str) -> None:
        """A participant has called."""
        self.last[name] = time.monotonic()

    def gather(
        self, futures: Futures, on_failure: Callable[[str], object] | None = None, *, stay: float = 0.0
    ) -> dict[str, Any]:
        """As the function `gather`, and nobody may be silent for longer than ``timeout``.

        Raises:
            ParticipantFailed: at once when a participant fails, and when one was silent for ``timeout`` seconds.
        """
        calls, failure = _Calls(futures, cause_of), None
        for name in futures:
            self.heartbeat(name)
        while calls.running and not calls.failures and failure is None:
            if not calls.next(self._seconds_left(calls.running)):
                silent = self.silent(calls.running, time.monotonic())
                failure = Failure(silence(self.timeout, silent), silent) if silent else None
        return calls.end(failure, on_failure, stay)

    def silent(self, running: Collection[str], now: float) -> list[str]:
        """Who of ``running`` should have called by ``now`` (`time.monotonic`)."""
        late = [name for name, last in self.last.items() if name in running and last <= now - self.timeout]
        waiting = self.waiting()
        return [name for name in late if name not in waiting]

    def _seconds_left(self, running: Collection[str]) -> float:
        expected = [name for name in running if name not in self.waiting()]
        oldest = min((self.last[name] for name in expected), default=time.monotonic())
        return max(0.001, oldest + self.timeout - time.monotonic())


class _Calls:
    """Calls of participants, and how those that have ended did end."""

    def __init__(self, futures: Futures, cause: Callable[[Exception], str]) -> None:
        self.futures = futures
        self.cause = cause
        self.running = dict.fromkeys(futures)
        self.results: dict[str, Any] = {}
        self.failures: dict[str, Exception] = {}
        self._ended: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        for name, future in futures.items():
            future.add_done_callback(partial(_put, self._ended, name))

    def wake(self, _: object) -> None:
        """Let `next` return."""
        self._ended.put(None)

    def next(self, seconds: float | None) -> bool:
        """Wait until a call has ended, or `wake` was called; False if neither came in time."""
        try:
            name = self._ended.get(timeout=seconds)
        except queue.Empty:
            return False
        if name is not None:
            del self.running[name]
            try:
                self.results[name] = self.futures[name].value()
            except Exception as error:
                self.failures[name] = error
        return True

    def end(self, failure: Failure | None, on_failure: Callable[[str], object] | None, stay: float) -> dict[str, Any]:
        """All results, if there was no failure."""
        if failure is None and not self.failures:
            return {name: self.results[name] for name in self.futures}
        failure = failure or Failure(self.reasons()[0])
        if on_failure is not None:
            on_failure(failure.reason)
        self.wait(stay, lambda: not self.running.keys() - failure.silent)
        late = [name for name in self.running if name not in failure.silent]
        others = [reason for reason in self.reasons() if failure.reason not in reason]  # not who passes it on
        reasons = [failure.reason, *others, *([silence(stay, late)] if stay and late else [])]
        raise ParticipantFailed(*reasons) from next(iter(self.failures.values()), None)

    def wait(self, seconds: float, enough: Callable[[], bool]) -> None:
        """Let calls end until it is enough, or for some seconds."""
        until = time.monotonic() + seconds
        while not enough() and (left := until - time.monotonic()) > 0:
            self.next(left)

    def reasons(self) -> list[str]:
        """Why calls have failed so far, first to last."""
        return [f"{name} failed: {self.cause(error)}" for name, error in self.failures.items()]


def _put(ended: queue.SimpleQueue[str | None], name: str, future: torch.futures.Future[Any]) -> None:
    ended.put(name)
