"""Wait for the results of all participants; end the wait when one fails or is silent, and name it."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from reference.system.text import cause_of

Futures = Mapping[str, torch.futures.Future[Any]]

# Seconds that a role stays after a failure, so that the others get its last answers, which give the reason.
FAREWELL_SECONDS = 2.0


class ParticipantFailed(RuntimeError):
    """A participant failed, or was silent for too long. ``reasons`` name participants and causes, first to last."""

    def __init__(self, *reasons: str) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class ParticipantSilent(ParticipantFailed, TimeoutError):
    """A participant was silent for too long."""


@dataclass(frozen=True)
class Failure:
    """Why a wait ended before all participants had a result. ``silent``: those from whom nothing more is expected."""

    reason: str
    silent: Collection[str] = ()


def silence(seconds: float, names: Collection[str]) -> str:
    """Say why a wait for these participants took too long."""
    return f"nothing for {seconds} s from {', '.join(names)}"


def gather(
    futures: Futures,
    on_failure: Callable[[str], object] | None = None,
    *,
    failed: torch.futures.Future[Failure] | None = None,
    stay: float = 0.0,
) -> dict[str, Any]:
    """Wait for every participant's result and return them in the order of ``futures``. Has no timeout of its own.

    Args:
        on_failure: called with the first failure's reason; it must end the waits of the other participants.
        failed: a future that completes if a failure is noticed elsewhere, such as by a `Barrier` at its deadline.
        stay: seconds to wait after a failure until the other participants have heard of it, and so have ended.

    Raises:
        ParticipantFailed: a participant failed, or ``failed`` is completed. Names all that failed within ``stay``.
        ParticipantSilent: ``failed`` says that some were silent.
    """
    calls = _Calls(futures)
    if failed is None:
        failed = torch.futures.Future()
    failed.add_done_callback(calls.wake)
    while calls.running and not calls.failures and not failed.done():
        calls.next(None)
    return calls.end(failed.value() if failed.done() else None, on_failure, stay)


class Liveness:
    """Notes when each participant last called. `heartbeat` runs in RPC threads, `gather` in the waiting thread."""

    def __init__(self, names: Collection[str], timeout: float, waiting: Callable[[], Collection[str]] = tuple) -> None:
        """``timeout``: seconds of silence; ``waiting``: participants that now wait for an answer, and so are silent."""
        self.timeout = timeout
        self.waiting = waiting
        self.last = dict.fromkeys(names, time.monotonic())

    def heartbeat(self, name: str) -> None:
        """Note that a participant has called."""
        self.last[name] = time.monotonic()

    def gather(
        self, futures: Futures, on_failure: Callable[[str], object] | None = None, *, stay: float = 0.0
    ) -> dict[str, Any]:
        """Wait like the function `gather`; in addition no participant may be silent for longer than ``timeout``.

        Raises:
            ParticipantFailed: a participant failed. Raised at once.
            ParticipantSilent: a participant was silent for ``timeout`` seconds.
        """
        calls, failure = _Calls(futures), None
        for name in futures:
            self.heartbeat(name)
        while calls.running and not calls.failures and failure is None:
            if not calls.next(self._seconds_left(calls.running)):
                silent = self.silent(calls.running, time.monotonic())
                failure = Failure(silence(self.timeout, silent), silent) if silent else None
        return calls.end(failure, on_failure, stay)

    def silent(self, running: Collection[str], now: float) -> list[str]:
        """The participants among ``running`` that should have called by ``now`` (`time.monotonic`)."""
        late = [name for name, last in self.last.items() if name in running and last <= now - self.timeout]
        waiting = self.waiting()
        return [name for name in late if name not in waiting]

    def _seconds_left(self, running: Collection[str]) -> float:
        expected = [name for name in running if name not in self.waiting()]
        oldest = min((self.last[name] for name in expected), default=time.monotonic())
        return max(0.001, oldest + self.timeout - time.monotonic())


class _Calls:
    """The calls of all participants, and the results or errors of those that have ended."""

    def __init__(self, futures: Futures) -> None:
        self.futures = futures
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
        """Return all results. Raises ParticipantFailed, or ParticipantSilent: there was a failure."""
        if failure is None and not self.failures:
            return {name: self.results[name] for name in self.futures}
        failure = failure or Failure(self.reasons()[0])
        if on_failure is not None:
            on_failure(failure.reason)
        self.wait(stay, lambda: not self.running.keys() - failure.silent)
        late = [name for name in self.running if name not in failure.silent]
        others = [
            reason for reason in self.reasons() if failure.reason not in reason
        ]  # some only pass the first failure on
        reasons = [failure.reason, *others, *([silence(stay, late)] if stay and late else [])]
        kind = ParticipantSilent if failure.silent else ParticipantFailed
        raise kind(*reasons) from next(iter(self.failures.values()), None)

    def wait(self, seconds: float, enough: Callable[[], bool]) -> None:
        """Wait for calls to end, until ``enough`` is true or for these seconds."""
        until = time.monotonic() + seconds
        while not enough() and (left := until - time.monotonic()) > 0:
            self.next(left)

    def reasons(self) -> list[str]:
        """The reasons of all calls that have failed so far, first to last."""
        return [f"{name} failed: {cause_of(error)}" for name, error in self.failures.items()]


def _put(ended: queue.SimpleQueue[str | None], name: str, future: torch.futures.Future[Any]) -> None:
    ended.put(name)
