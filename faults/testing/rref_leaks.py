"""Compare what the roles of an idle world keep for others before and after a test."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from functools import partial

from faults.testing.rref_counts import COUNTS, kept, recorded
from reference.outcome import Returned
from reference.world.world import World, alive

# How long a role may take to answer (seconds).
ANSWER_SECONDS = 20.0
# How long RRefs may take to be released, because their messages are still in flight (seconds).
GRACE = 10.0

Counts = Mapping[str, Mapping[str, int]]


class Kept:
    """What the roles of one world keep. The roles are idle while they are asked."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._before: Counts = {}

    def begin(self) -> bool:
        """Remember what each role keeps. False: a role does not answer, because it is lost or busy."""
        counts = self._counts()
        self._before = counts or {}
        return counts is not None

    def left(self, besides: Collection[str] = ()) -> list[tuple[str, str]] | None:
        """Return kind and text of each count that is higher than before, after messages in flight have arrived.

        The kinds ``besides`` are not waited for. None for a world that has lost a role: its other roles keep some RRefs
        for good.
        """
        due, counts = time.monotonic() + GRACE, self._counts()
        while counts is not None and {kind for kind, _ in self._more(counts)} - {*besides} and time.monotonic() < due:
            # A round trip to every role replaces a sleep. Collect garbage, because a handler may have ended only now.
            counts = self._counts(collect=True)
        return None if counts is None else self._more(counts)

    def _counts(self, collect: bool = False) -> Counts | None:
        """Return each role's counts; None unless all roles answer."""
        if self.world.outcomes or self.world.busy:
            return None
        outcomes = self.world.run(dict.fromkeys(self.world.pids, partial(kept, collect)), deadline=ANSWER_SECONDS)
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
    """Return a `Kept` that has begun for every other world of this process whose roles answer."""
    return [each for each in map(Kept, set(alive) - set(besides)) if each.begin()]


def at_end(world: World) -> list[tuple[str, str]]:
    """Return kind and text of what the roles of one test's own world keep.

    Idle roles are asked now; the others recorded it at their shutdown (`faults.testing.rref_counts.record`). If one did
    not return, the result is empty.
    """
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
