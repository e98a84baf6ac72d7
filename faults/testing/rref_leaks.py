"""Compare what the roles of an idle world keep for others before and after a test."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from functools import partial

from faults.testing.rref_counts import COUNTS, kept, recorded
from reference.outcome import Returned
from reference.world.world import World, alive

# How long a role may take to say that it is there (seconds).
ANSWER = 20.0
# How long RRefs may take to be given back: their messages are still under way (seconds).
GRACE = 10.0

Counts = Mapping[str, Mapping[str, int]]


class Kept:
    """Of one world, whose roles are idle while it is asked."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._before: Counts = {}

    def begin(self) -> bool:
        """Remember what each role keeps. False: not all of them answer, since one is lost or at work."""
        counts = self._counts()
        self._before = counts or {}
        return counts is not None

    def left(self) -> list[tuple[str, str]] | None:
        """Kind and text of each count that is higher than before, once what is under way has come.

        None of a world that has lost a role, which keeps some for good.
        """
        due, counts = time.monotonic() + GRACE, self._counts()
        while counts is not None and self._more(counts) and time.monotonic() < due:
            # A round trip to every role; no clock. A handler may have ended, and its frames be garbage, only now.
            counts = self._counts(collect=True)
        return None if counts is None else self._more(counts)

    def _counts(self, collect: bool = False) -> Counts | None:
        """Each role's; None unless all answer."""
        if self.world.outcomes or self.world.busy:
            return None
        outcomes = self.world.run(dict.fromkeys(self.world.pids, partial(kept, collect)), deadline=ANSWER)
        counts = {role: outcome.value for role, outcome in outcomes.items() if isinstance(outcome, Returned)}
        return counts if len(counts) == len(outcomes) else None  # type: ignore[return-value]

    def _more(self, after: Counts) -> list[tuple[str, str]]:
        found = []
        for role, counts in after.items():
            before = self._before.get(role, {})
            more = {name: count for name, count in counts.items() if count > before.get(name, 0)}
            found += [(COUNTS[n], f"{role} keeps {n}={count}, was {before.get(n, 0)}") for n, count in more.items()]
        return found


def others(besides: Collection[World]) -> list[Kept]:
    """Of every other world of this process that can be asked, remembered."""
    return [each for each in map(Kept, set(alive) - set(besides)) if each.begin()]


def at_end(world: World) -> list[tuple[str, str]]:
    """Kind and text of whatever the roles of a world of one test's own keep: idle ones now, others at their shutdown
    (`faults.testing.rref_counts.record`); none where one did not return."""
    if not world.outcomes:
        return Kept(world).left() or []
    if not all(isinstance(outcome, Returned) for outcome in world.outcomes.values()):
        return []
    found = {role: recorded(str(world.folder), role) for role in world.pids}
    return [
        (COUNTS[name], f"{role} keeps {name}={count} at its end")
        for role, counts in found.items()
        for name, count in counts.items()
        if count
    ]
