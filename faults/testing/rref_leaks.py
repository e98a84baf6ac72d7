"""Compare what the roles of an idle world keep for others before and after a test."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch.distributed.rpc import api

from faults.hook import counts_of_torch
from faults.ledger.snapshot import COUNTS, from_events, to_events
from faults.tracing import RELEASE
from faults.tracing.tracer import Tracer, snapshot_here
from reference.outcome import Returned
from reference.world.world import World, alive


def kept_and_seen(collect: bool = False) -> tuple[dict[str, int], int]:
    """Return torch's counts, and how many events the trace of this role has seen, 0 if it does not trace. ``collect``:
    first collect garbage, which may hold some of what is counted."""
    if collect:
        gc.collect()
    return counts_of_torch(), 0 if Tracer.current is None else Tracer.current.rrefs.events


def start_names(role: str) -> None:
    """Trace this role. To be used as a ``before``."""
    Tracer.start()


def record_counts(folder: str, trace: bool, role: str) -> None:
    """Make a role record its counts when it shuts RPC down and no calls can arrive. To be used as a ``before``.
    ``trace``: trace it, and record what it holds when all roles have ended their work."""
    api._finalize_shutdown = partial(_finalize, api._finalize_shutdown, Path(folder) / f"{role}.kept")
    if trace:
        Tracer.start()
        setattr(api, RELEASE, partial(_write, getattr(api, RELEASE), Path(folder) / f"{role}.held"))


def _written(world: World, what: str) -> dict[str, Any]:
    """Read what each role of a world has recorded, 'kept' or 'held': one that did not shut RPC down, nothing."""
    files = {role: world.folder / f"{role}.{what}" for role in world.pids}
    return {role: json.loads(file.read_text()) for role, file in files.items() if file.exists()}


def _finalize(original: Callable[[], None], place: Path) -> None:
    try:
        gc.collect()  # which may hold some of what is counted
        place.write_text(json.dumps(counts_of_torch()))
    finally:
        original()


def _of_kind(text: str) -> tuple[str, str]:
    return ("contexts" if text.startswith("autograd context") else "rrefs"), text


def _write(original: Callable[..., None], place: Path, *arguments: Any) -> None:
    try:
        assert Tracer.current is not None
        Tracer.current.snapshot_at_end(lambda snapshot: place.write_text(json.dumps(list(to_events(snapshot)))))
    finally:
        original(*arguments)


# How long a role may take to answer (seconds).
ANSWER_SECONDS = 20.0
# How long RRefs may take to be released, because their messages are still in flight (seconds).
GRACE = 10.0

# What each role answers: `kept_and_seen`.
Answers = Mapping[str, tuple[Mapping[str, int], int]]
_NOTHING: tuple[Mapping[str, int], int] = ({}, 0)


class Kept:
    """What the roles of one world keep. The roles are idle while they are asked. ``trace``: they trace it."""

    def __init__(self, world: World, trace: bool = False) -> None:
        self.world, self.trace = world, trace
        self._before: Answers = {}

    def begin(self) -> bool:
        """Remember what each role keeps. False: a role does not answer, because it is lost or busy."""
        found = self._ask()
        self._before = found or {}
        return found is not None

    def left(self, besides: Collection[str] = ()) -> list[tuple[str, str]] | None:
        """Return kind and text of each count that is higher than before, after messages in flight have arrived.

        The kinds ``besides`` are not waited for. None for a world that has lost a role: its other roles keep some RRefs
        for good.
        """
        due, found = time.monotonic() + GRACE, self._ask()
        while found is not None and {kind for kind, _ in self._more(found)} - {*besides} and time.monotonic() < due:
            # A round trip to every role replaces a sleep. Collect garbage, because a handler may have ended only now.
            found = self._ask(collect=True)
        if found is None:
            return None
        more = self._more(found)
        return more + (self._named({kind for kind, _ in more}) if more and self.trace else [])

    def _ask(self, collect: bool = False) -> Answers | None:
        return self._run({role: partial(kept_and_seen, collect) for role in self.world.pids})

    def _run(self, work: Mapping[str, Callable[[], Any]]) -> dict[str, Any] | None:
        """Let each role do its work; None unless all return."""
        if self.world.outcomes or self.world.busy:
            return None
        outcomes = self.world.run(dict(work), deadline=ANSWER_SECONDS)
        values = {role: outcome.value for role, outcome in outcomes.items() if isinstance(outcome, Returned)}
        return values if len(values) == len(outcomes) else None

    def _named(self, kinds: Collection[str]) -> list[tuple[str, str]]:
        """Return kind and text of everything of these kinds that the roles hold since `begin`."""
        from faults.judge import holdings  # no role imports the judge

        since = {role: self._before.get(role, _NOTHING)[1] for role in self.world.pids}
        found = self._run({role: partial(snapshot_here, number) for role, number in since.items()}) or {}
        known = {role: each for role, each in found.items() if each is not None}
        return [each for each in map(_of_kind, holdings.everything(known)) if each[0] in kinds]

    def _more(self, after: Answers) -> list[tuple[str, str]]:
        found = []
        for role, (counts, _) in after.items():
            before, _ = self._before.get(role, _NOTHING)
            more = {name: count for name, count in counts.items() if count > before.get(name, 0)}
            found += [(COUNTS[n], f"{role} keeps {n}={count}, was {before.get(n, 0)}") for n, count in more.items()]
        return found


def others(besides: Collection[World]) -> list[Kept]:
    """Return a `Kept` that has begun for every other world of this process whose roles answer."""
    return [each for each in map(Kept, set(alive) - set(besides)) if each.begin()]


def at_end(world: World, trace: bool = False, besides: Collection[str] = ()) -> list[tuple[str, str]]:
    """Return kind and text of what the roles of one test's own world keep. ``trace``: they trace it. ``besides``: as of
    `Kept.left`.

    Idle roles are asked now; the others recorded it at their shutdown (`record_counts`). If one did
    not return, the result is empty.
    """
    if not world.outcomes:
        return Kept(world, trace).left(besides) or []
    if not all(isinstance(outcome, Returned) for outcome in world.outcomes.values()):
        return []
    counted = [
        (COUNTS[name], f"{role} keeps {name}={count} at its end")
        for role, counts in _written(world, "kept").items()
        for name, count in counts.items()
        if count
    ]
    if not trace:
        return counted
    from faults.judge import holdings  # no role imports the judge

    snapshots = {role: from_events(role, events) for role, events in _written(world, "held").items()}
    every = len(snapshots) == len(world.pids) and holdings.are_settled(snapshots)
    return [*counted, *map(_of_kind, holdings.leaks(snapshots, ended=True, every=every))]
