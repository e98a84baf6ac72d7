"""Let everybody report once a round; the last one completes the round for all. A round has a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch

from reference.rpc.liveness import FAREWELL_SECONDS, Failure, Futures, ParticipantFailed, gather, silence

T = TypeVar("T")


class RoundFailed(RuntimeError):
    """A round that cannot be completed. Says why, and which participants it lacks."""

    unit: ClassVar[str] = "round"
    member: ClassVar[str] = "trainer"
    twice: ClassVar[str] = "reports twice"

    @classmethod
    def of(cls, number: int, reason: str) -> Self:
        """The failure of round ``number``."""
        return cls(f"{cls.unit} {number}: {reason}")


class Barrier(Generic[T]):
    """Runs where the reports arrive, in RPC threads, several at once.

    A thread of its own watches the deadline, and tells everybody of a failure. So `fail` runs no callback in the
    thread that calls it, and may be called under any lock.

    Args:
        names: who reports once a round.
        timeout: seconds that a round may take until the last report; and after the last round, until all have ended.
        error: what a failed round raises.
    """

    def __init__(
        self, names: Collection[str], rounds: int, timeout: float, error: type[RoundFailed] = RoundFailed
    ) -> None:
        self.names, self.rounds, self.timeout, self.error = list(names), rounds, timeout, error
        self.number = 0
        self.joined: list[str] = []
        self.ended: set[str] = set()
        self.failure: RoundFailed | None = None
        self.failed: torch.futures.Future[Failure] = torch.futures.Future()
        self._silent: list[str] = []
        self._future: torch.futures.Future[T | RoundFailed] = torch.futures.Future()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._closed = False
        self._due = time.monotonic() + timeout
        threading.Thread(target=self._watch, name="barrier", daemon=True).start()

    def join(
        self, name: str, number: int | None = None, pick: Callable[[T], Any] | None = None
    ) -> tuple[torch.futures.Future[Any], bool]:
        """Report to the round that is under way: a future of the round's result, and whether this report is the last.

        ``number`` is the round's, from 0, if the report carries it: a late or repeated report is recognized by it.
        ``pick`` chooses from the round's result what is this participant's.

        Raises:
            RoundFailed: a stranger's report, a second one, one of another round, or one after the last round; or a
                round has failed. The round goes on without the refused report.
        """
        with self._lock:  # itself: entering the condition takes longer
            self._admit(name, number)
            self.joined.append(name)
            # Through `then`: an exception set on the returned future itself would arrive as a value.
            return self._future.then(partial(_result_or_raise, pick)), len(self.joined) == len(self.names)

    @contextmanager
    def report(self, name: str, number: int | None = None) -> Iterator[tuple[torch.futures.Future[T], bool]]:
        """`join`, for a block that works on the report: if the block fails, the round has failed for everybody."""
        joined = self.join(name, number)
        with self.work(f"the report of {name}"):
            yield joined

    @contextmanager
    def work(self, what: str) -> Iterator[None]:
        """For a block that works for everybody: if it fails, the round has failed for everybody.

        Raises:
            RoundFailed: the block failed, and ``what`` says which; or a round had failed before.
        """
        if self.failure is not None:
            raise self.failure
        try:
            yield
        except Exception as error:
            raise self.fail(f"{what} failed: {type(error).__name__}: {error}") from error

    def complete(self, result: T) -> None:
        """Answer everybody, and begin the next round. Call it without a lock: it makes all replies, one by one."""
        with self._lock:
            if self.failure is not None:
                return
            future, self._future = self._future, torch.futures.Future()
            self.number += 1
            self.joined = []
            self._due = time.monotonic() + self.timeout
        future.set_result(result)

    def fail(self, reason: str) -> RoundFailed:
        """End the wait of everybody in this round, and refuse every later report. Returns the first failure."""
        with self._changed:
            return self._fail(reason)

    def gather(self, futures: Futures, stay: float = FAREWELL_SECONDS) -> dict[str, Any]:
        """Everybody's result, of calls that make the reports, in the order of ``futures``.

        After a failure it waits up to ``stay`` seconds until everybody has heard of it: its caller may end then, and
        with its process would go answers that are still to be sent.

        Raises:
            RoundFailed: a call failed, or a round did. Names everybody who failed.
        """
        self.note_ends(futures)
        try:
            return gather(futures, self.fail, failed=self.failed, stay=stay)
        except ParticipantFailed as error:
            raise self.error("; ".join([str(self.failure), *error.reasons[1:]])) from error

    def note_ends(self, futures: Futures) -> None:
        """After the last round, expect of everybody only that its call ends."""
        for name, future in futures.items():
            future.add_done_callback(partial(self._end, name))

    def missing(self) -> list[str]:
        """Who has not reported in this round; after the last round, who has not ended."""
        here = self.joined if self.number < self.rounds else self.ended
        return [name for name in self.names if name not in here]

    def close(self) -> None:
        """End the watch: no further report is expected."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _admit(self, name: str, number: int | None) -> None:
        now, unit = self.number, self.error.unit
        if self.failure is not None:
            raise self.failure
        if name not in self.names:
            raise self.error(f"unknown {self.error.member} {name!r}, wanted one of {', '.join(self.names)}")
        if number is not None and number < now:
            raise self.error.of(now, f"{name} reports for {unit} {number}, which is over")
        if name in self.joined:
            raise self.error.of(now, f"{name} {self.error.twice}")
        if now >= self.rounds:  # otherwise who trains twice, interleaved with itself, would come to a trace
            raise self.error(f"{name} reports after the last of {self.rounds} {unit}s")
        if number is not None and number > now:
            raise self.error.of(now, f"{name} reports for {unit} {number}, which has not begun")

    def _end(self, name: str, _: object) -> None:
        with self._changed:
            self.ended.add(name)

    def _fail(self, reason: str) -> RoundFailed:
        if self.failure is None:
            self.failure = self.error.of(self.number, reason)
            self._changed.notify()
        return self.failure

    def _watch(self) -> None:
        with self._changed:
            while self.failure is None and not self._closed:
                left = self._due - time.monotonic()
                if left > 0:
                    self._changed.wait(min(left, threading.TIMEOUT_MAX))
                elif missing := self.missing():
                    self._fail(silence(self.timeout, missing))
                    self._silent = missing
                else:  # the last one is at work
                    self._due += self.timeout
        if self.failure is not None:
            self._future.set_result(self.failure)
            self.failed.set_result(Failure(str(self.failure), self._silent))


def _result_or_raise(pick: Callable[[T], Any] | None, future: torch.futures.Future[T | RoundFailed]) -> Any:
    result = future.wait()
    if isinstance(result, RoundFailed):
        raise result
    return result if pick is None else pick(result)
