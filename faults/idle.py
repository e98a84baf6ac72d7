"""An idle world that several tests share: whole again before each, and held to what it kept for others after each."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from faults.owners import COUNTS, kept
from reference.outcome import Returned
from reference.world import World, launch

# Of the whole world, which lasts as long as the tests of its module (seconds).
DEADLINE = 3600.0
# How long a role may take to say that it is there (seconds).
ANSWER = 20.0
# How long RRefs may take to be given back: their messages are still under way (seconds).
GRACE = 10.0

Counts = Mapping[str, Mapping[str, int]]


class Idle:
    """Everything that a `World` of idle roles has; the world itself changes when one of its roles was lost."""

    def __init__(self, roles: Sequence[str], folder: Callable[[], Path], **arguments: Any) -> None:
        self.roles = tuple(roles)
        self._launch = partial(launch, list(roles), **{"deadline": DEADLINE, **arguments})
        self._folder = folder
        self._spoilt = False
        self.world: World = self._launch(folder=folder())
        self._before: Counts = {}
        self._logged: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world, name)

    def begin(self) -> None:
        """Before a test: replace the world if it is not whole, and remember what its roles keep and have logged."""
        counts = None if self._spoilt or self.world.outcomes else self._counts()
        if counts is None:
            self.close()
            self.world, self._spoilt = self._launch(folder=self._folder()), False
            counts = self._counts()
        self._before = counts or {}
        self._logged = {role: path.stat().st_size for role, path in self._logs().items() if path.exists()}

    def left(self, besides: Collection[str] = ()) -> list[str]:
        """After a test: what its roles keep more than before, once what is under way has come; nothing of a world
        that has lost a role, which keeps some for good."""
        due, counts = time.monotonic() + GRACE, self._counts()
        while counts is not None and _more(self._before, counts) and time.monotonic() < due:
            # A round trip to every role; no clock. A handler may have ended, and its frames be garbage, only now.
            counts = self._counts(collect=True)
        if counts is None:
            self._spoilt = True
            return []
        found = _more(self._before, counts)
        self._spoilt = bool(found)
        return [text for name, text in found if COUNTS[name] not in besides]

    def logs(self) -> dict[str, str]:
        """What each role has written since `begin`."""
        content = {role: path.read_bytes() for role, path in self._logs().items() if path.exists()}
        return {role: text[self._logged.get(role, 0) :].decode(errors="replace") for role, text in content.items()}

    def close(self) -> None:
        self.world.close()

    def _logs(self) -> dict[str, Path]:
        return {role: self.world.folder / f"{role}.log" for role in self.roles}

    def _counts(self, collect: bool = False) -> Counts | None:
        """Each role's; None unless all answer."""
        if self.world.outcomes:
            return None
        outcomes = self.world.run(dict.fromkeys(self.roles, partial(kept, collect)), deadline=ANSWER)
        counts = {role: outcome.value for role, outcome in outcomes.items() if isinstance(outcome, Returned)}
        return counts if len(counts) == len(self.roles) else None  # type: ignore[return-value]


def _more(before: Counts, after: Counts) -> list[tuple[str, str]]:
    return [
        (name, f"{role} keeps {name}={count}, was {before[role][name]}")
        for role, counts in after.items()
        for name, count in counts.items()
        if count > before[role][name]
    ]
