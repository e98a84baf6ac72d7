"""A number of seconds that several waits share."""

from __future__ import annotations

import time

# The least number of seconds that a wait is given: RPC takes 0 for no limit.
SHORTEST = 0.001


class TimeLimit:
    """Begins when it is made. ``reserve``: the last seconds, which waits for other processes leave alone."""

    def __init__(self, seconds: float, reserve: float = 0.0) -> None:
        self.seconds = seconds
        self.reserve = reserve
        self._due = time.monotonic() + seconds

    def left(self) -> float:
        """The seconds until the end, at least `SHORTEST`."""
        return max(self._due - time.monotonic(), SHORTEST)

    def left_to_wait(self) -> float:
        """The seconds until the reserve begins, at least `SHORTEST`."""
        return max(self._due - self.reserve - time.monotonic(), SHORTEST)

    def over(self) -> bool:
        """Whether the reserve has begun."""
        return self.left_to_wait() == SHORTEST
