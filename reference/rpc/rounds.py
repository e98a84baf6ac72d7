"""Let every participant report once per round; the last report completes the round for all. A round has a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch

from reference.rpc.waiting import FAREWELL_SECONDS, Futures, Liveness, ParticipantFailed

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


class Rounds(Liveness, Generic[T]):
    """Collects the reports of a round, in RPC threads, several at once.

    Args:
        names: the participants, each of which reports once per round.
        timeout: seconds from a round's begin to its last report; after the last round, seconds until all have ended.
        error: the exception that a failed round raises.
        together: False if no participant waits for another; then each one's own silence is limited.
    """

    def __init__(
        self,
        names: Collection[str],
        rounds: int,
        timeout: float,
        error: type[RoundFailed] = RoundFailed,
        *,
        together: bool = True,
    ) -> None:
        self.rounds, self.error, self.together = rounds, error, together
        self.number = 0
        self.joined: list[str] = []
        self._future: torch.futures.Future[T | RoundFailed] = torch.futures.Future()
        super().__init__(names, timeout)

    @property
    def failure(self) -> RoundFailed | None:
        """The failure of the current round."""
        return None if self.reason is None else self.error(self.reason)

    def expected(self) -> list[str]:
        """Return who has not reported in this round; after the last one, whose calls have not ended."""
        here = self.joined if self.together and self.number < self.rounds else self.ended
        return [name for name in self.names if name not in here]

    def join(self, name: str, pick: Callable[[T], Any] | None = None) -> tuple[torch.futures.Future[Any], bool]:
        """Report to the current round. Returns a future of the round's result, and whether this report is the last.

        ``pick`` takes this participant's part from the round's result.

        Raises:
            RoundFailed: the report is a stranger's, a second one or after the last one; or a round has failed. The
                round goes on without the refused report.
        """
        with self._lock:  # the lock itself, because entering the condition takes longer
            self._admit(name)
            self.joined.append(name)
            # Raised in `then`, because an exception that is set on the returned future would arrive as a value.
            return self._future.then(partial(_result_or_raise, pick)), len(self.joined) == len(self.names)

    @contextmanager
    def report(self, name: str) -> Iterator[tuple[torch.futures.Future[T], bool]]:
        """`join`, for a block that handles the report: if the block fails, the round fails for all participants."""
        joined = self.join(name)
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
            self.fail(f"{what} failed: {type(error).__name__}: {error}")
            assert self.failure is not None
            raise self.failure from error

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
            self.last = dict.fromkeys(self.names, time.monotonic())
        return future

    def gather(self, calls: Futures, *, stay: float = FAREWELL_SECONDS) -> dict[str, Any]:
        """Wait for the calls that make the reports, as `Liveness.gather` does.

        Raises:
            RoundFailed: a call or a round failed. Names all participants that failed.
        """
        try:
            return super().gather(calls, stay=stay)
        except ParticipantFailed as error:
            raise self.error(str(error)) from error

    def answer(self) -> None:
        assert self.failure is not None
        self._future.set_result(self.failure)

    def _fail(self, reason: str, silent: Collection[str] = ()) -> None:
        super()._fail(str(self.error.of(self.number, reason)), silent)

    def _admit(self, name: str) -> None:
        now, unit = self.number, self.error.unit
        if self.failure is not None:
            raise self.failure
        if name not in self.names:
            raise self.error(f"unknown {self.error.member} {name!r}, wanted one of {', '.join(self.names)}")
        if name in self.joined:
            raise self.error.of(now, f"{name} {self.error.twice}")
        if now >= self.rounds:  # otherwise a trainer that runs twice, interleaved with itself, would end with a trace
            raise self.error(f"{name} reports after the last of {self.rounds} {unit}s")


def _result_or_raise(pick: Callable[[T], Any] | None, future: torch.futures.Future[T | RoundFailed]) -> Any:
    result = future.wait()
    if isinstance(result, RoundFailed):
        raise result
    return result if pick is None else pick(result)
