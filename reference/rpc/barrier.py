"""Let every participant report once per round; the last report completes the round for all. A round has a deadline."""

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
    """A round cannot be completed. Says why, and which participants are missing."""

    unit: ClassVar[str] = "round"
    member: ClassVar[str] = "trainer"
    twice: ClassVar[str] = "reports twice"

    @classmethod
    def of(cls, number: int, reason: str) -> Self:
        """Make the failure of round ``number``."""
        return cls(f"{cls.unit} {number}: {reason}")


class Barrier(Generic[T]):
    """Collects the reports of a round, in RPC threads, several at once.

    The barrier's own thread watches the deadline and tells all participants of a failure. So `fail` runs no callback in
    its caller's thread, and may be called under any lock.

    Args:
        names: the participants, each of which reports once per round.
        timeout: seconds from a round's begin to its last report; after the last round, seconds until all have ended.
        error: the exception that a failed round raises.
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
        """Report to the current round. Returns a future of the round's result, and whether this report is the last.

        ``number`` is the round's number from 0, if the report carries it; it makes late and repeated reports known.
        ``pick`` takes this participant's part from the round's result.

        Raises:
            RoundFailed: the report is a stranger's, a second one, of another round or after the last one; or a round
                has failed. The round goes on without the refused report.
        """
        with self._lock:  # the lock itself, because entering the condition takes longer
            self._admit(name, number)
            self.joined.append(name)
            # Raised in `then`, because an exception that is set on the returned future would arrive as a value.
            return self._future.then(partial(_result_or_raise, pick)), len(self.joined) == len(self.names)

    @contextmanager
    def report(self, name: str, number: int | None = None) -> Iterator[tuple[torch.futures.Future[T], bool]]:
        """`join`, for a block that handles the report: if the block fails, the round fails for all participants."""
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

    def swap_future(self) -> torch.futures.Future[T | RoundFailed]:
        """Begin the next round with a new future, and return the one that all participants of this round wait for.

        Set its result without a lock: that makes all replies in turn. After a failure the participants have theirs.
        """
        with self._lock:
            if self.failure is not None:
                return torch.futures.Future()
            future, self._future = self._future, torch.futures.Future()
            self.number += 1
            self.joined = []
            self._due = time.monotonic() + self.timeout
        return future

    def complete(self, result: T) -> None:
        """Begin the next round, and answer all participants of this one. Call it without a lock (`swap_future`)."""
        self.swap_future().set_result(result)

    def fail(self, reason: str) -> RoundFailed:
        """End the wait of all participants in this round and refuse every later report. Returns the first failure."""
        with self._changed:
            return self._fail(reason)

    def gather(self, futures: Futures, stay: float = FAREWELL_SECONDS) -> dict[str, Any]:
        """Wait for the calls that make the reports, and return their results in the order of ``futures``.

        After a failure this waits up to ``stay`` seconds until all participants have heard of it. The caller may end
        after that, and its process with it, which must not lose answers that are still to be sent.

        Raises:
            RoundFailed: a call or a round failed. Names all participants that failed.
        """
        self.note_ends(futures)
        try:
            return gather(futures, self.fail, failed=self.failed, stay=stay)
        except ParticipantFailed as error:
            raise self.error("; ".join([str(self.failure), *error.reasons[1:]])) from error

    def note_ends(self, futures: Futures) -> None:
        """Note which calls have ended: after the last round that is all a participant still has to do."""
        for name, future in futures.items():
            future.add_done_callback(partial(self._end, name))

    def missing(self) -> list[str]:
        """The participants that have not reported in this round; after the last round, those that have not ended."""
        here = self.joined if self.number < self.rounds else self.ended
        return [name for name in self.names if name not in here]

    def close(self) -> None:
        """Stop watching the deadline: no further report is expected."""
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
        if now >= self.rounds:  # otherwise a trainer that runs twice, interleaved with itself, would end with a trace
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
                else:  # all have reported, and the last one is still completing the round
                    self._due += self.timeout
        if self.failure is not None:
            # First the wait in `gather`: a participant that hears of the failure fails too, and is not its reason.
            self.failed.set_result(Failure(str(self.failure), self._silent))
            self._future.set_result(self.failure)


def _result_or_raise(pick: Callable[[T], Any] | None, future: torch.futures.Future[T | RoundFailed]) -> Any:
    result = future.wait()
    if isinstance(result, RoundFailed):
        raise result
    return result if pick is None else pick(result)
