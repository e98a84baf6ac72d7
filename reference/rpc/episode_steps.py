"""The steps of one episode: observers act together or each by itself, and a failure ends the episode for all."""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import partial
from typing import Any, TypeVar

from reference.rpc.barrier import Barrier, RoundFailed
from reference.rpc.liveness import FAREWELL_SECONDS, Futures, Liveness, ParticipantFailed, gather

T = TypeVar("T")


class EpisodeFailed(RoundFailed):
    """An episode that cannot be completed. Says why, and whom it lacks, but not in which step."""

    unit, member, twice = "step", "observer", "calls twice in one step"

    @classmethod
    def of(cls, number: int, reason: str) -> EpisodeFailed:
        return cls(reason)


class EpisodeSteps(Barrier[T]):
    """Runs on the agent, which makes one for each episode; observers' calls arrive in RPC threads.

    Args:
        together: each step is a round of all observers, with a deadline. Otherwise no observer waits for another, so
            each one's own silence is limited.
        timeout: seconds that a step, or an observer's silence, may last.
    """

    def __init__(
        self, names: Collection[str], n_steps: int, timeout: float, error: type[EpisodeFailed], *, together: bool
    ) -> None:
        super().__init__(names, n_steps, timeout if together else math.inf, error)
        self.together = together
        self.liveness = Liveness(names, timeout)

    def wait_all(self, futures: Futures) -> list[Any]:
        """Wait for the observers' calls, and return their results in the order of ``futures``.

        Raises:
            EpisodeFailed: a call failed, or a step did, or an observer was silent. Says the first reason.
        """
        self.note_ends(futures)
        wait = partial(gather, failed=self.failed) if self.together else self.liveness.gather
        try:
            return list(wait(futures, self.fail, stay=FAREWELL_SECONDS).values())
        except ParticipantFailed as error:
            raise self.fail(str(error)) from error
