"""Compare what the roles of an idle world keep for others before and after a test."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from faults.testing.rref_counts import COUNTS, kept_and_seen, recorded
from reference.outcome import Returned
from reference.world.world import World, alive

# How long a role may take to answer (seconds).
ANSWER_SECONDS = 20.0
# How long RRefs may take to be released, because their messages are still in flight (seconds).
GRACE = 10.0

Counts = Mapping[str, Mapping[str, int]]


class Kept:
    """What the roles of one world keep. The roles are idle while they are asked. ``trace``: they trace it."""

    def __init__(self, world: World, trace: bool = False) -> None:
        self.world, self.trace = world, trace
        self._before: Counts = {}
        self._seen: Mapping[str, int] = {}

    def begin(self) -> bool:
        """Remember what each role keeps. False: a role does not answer, because it is lost or busy."""
        found = self._ask()
        self._before, self._seen = found or ({}, {})
        return found is not None

    def left(self, besides: Collection[str] = ()) -> list[tuple[str, str]] | None:
        """Return kind and text of each count that is higher than before, after messages in flight have arrived.

        The kinds ``besides`` are not waited for. None for a world that has lost a role: its other roles keep some RRefs
        for good.
        """
        due, counts = time.monotonic() + GRACE, self._counts()
        while counts is not None and {kind for kind, _ in self._more(counts)} - {*besides} and time.monotonic() < due:
            # A round trip to every role replaces a sleep. Collect garbage, because a handler may have ended only now.
            counts = self._counts(collect=True)
        if counts is None:
            return None
        more = self._more(counts)
        return more + (self._named({kind for kind, _ in more}) if more and self.trace else [])

    def _counts(self, collect: bool = False) -> Counts | None:
        found = self._ask(collect)
        return found and found[0]

    def _ask(self, collect: bool = False) -> tuple[Counts, Mapping[str, int]] | None:
        """Return each role's counts, and how many events its trace has seen; None unless all roles answer."""
        found = self._run({role: partial(kept_and_seen, collect) for role in self.world.pids})
        if found is None:
            return None
        return {role: each[0] for role, each in found.items()}, {role: each[1] for role, each in found.items()}

    def _run(self, work: Mapping[str, Callable[[], Any]]) -> dict[str, Any] | None:
        """Let each role do its work; None unless all return."""
        if self.world.outcomes or self.world.busy:
            return None
        outcomes = self.world.run(dict(work), deadline=ANSWER_SECONDS)
        values = {role: outcome.value for role, outcome in outcomes.items() if isinstance(outcome, Returned)}
        return values if len(values) == len(outcomes) else None

    def _named(self, kinds: Collection[str]) -> list[tuple[str, str]]:
        """Name what the roles hold since `begin`."""
        from faults.testing import rref_names

        stocks = self._run({role: partial(rref_names.stock, self._seen.get(role, 0)) for role in self.world.pids})
        return rref_names.named(stocks or {}, kinds)

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


def at_end(world: World, trace: bool = False) -> list[tuple[str, str]]:
    """Return kind and text of what the roles of one test's own world keep. ``trace``: they trace it.

    Idle roles are asked now; the others recorded it at their shutdown (`faults.testing.rref_counts.record`). If one did
    not return, the result is empty.
    """
    if not world.outcomes:
        return Kept(world, trace).left() or []
    if not all(isinstance(outcome, Returned) for outcome in world.outcomes.values()):
        return []
    found = {role: recorded(str(world.folder), role) for role in world.pids}
    counted = [
        (COUNTS[name], f"{role} keeps {name}={count} at its end")
        for role, counts in found.items()
        for name, count in counts.items()
        if count
    ]
    if not trace:
        return counted
    from faults.testing import rref_names

    return counted + rref_names.at_end(str(world.folder), list(world.pids))
