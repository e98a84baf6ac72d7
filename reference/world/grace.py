"""Roles that are given up before their deadline: they do not answer, and the world can only wait for them.

| a role | is given up |
|---|---|
| that was told of a loss, and does not end | a grace later |
| that starts RPC, as all others do or have done | when none that does has answered for a grace, or got on for six |
| that is stopped, as by SIGSTOP, while others have ended and the rest can only wait | when that has lasted a grace |

The first two are stuck inside torch's start: where threads or memory are short, its agent's constructor waits for ever,
and holds Python's lock. So does one that waits for another role's name, hence "all". Its process groups wait for ever
too, and leave the lock free, as a start does that is merely slow: hence "six".

A role that a debugger has is given up by nobody but the deadline.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Protocol

from reference.system.process_status import is_stopped, is_traced
from reference.world.phase import WAITING, Phase

# How long each is waited for by default (seconds).
SECONDS = 10.0

# So many graces has a start of RPC in which roles still answer.
ANSWERING = 6

# How often a world looks whether its roles are stopped, once one has ended, or still have a debugger (seconds).
LOOK_SECONDS = 0.5

# A look that comes so much later than it was due was held up with the launching process (seconds).
HELD_UP = 1.0


class Waiting(Protocol):
    """A role that has not ended, as its launcher sees it. ``heard``: when it last said something (monotonic seconds);
    ``news``: what it was told of a loss."""

    name: str
    pid: int
    phase: Phase
    heard: float
    news: str

    def send(self, *message: object) -> None: ...


# Whom and what somebody waits for: a role, why, and when it was last heard; all roles that start, together.
_Key = tuple[str, str, float]


class Grace:
    """``seconds``: how long each is waited for. For one thread."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._since: dict[_Key, float] = {}
        self._asked: set[_Key] = set()
        self._due: float | None = None

    def due(self) -> float | None:
        """When `given_up` has to be asked again (monotonic seconds)."""
        return self._due

    def given_up(self, roles: Collection[Waiting], *, ended: bool) -> list[tuple[Waiting, str]]:
        """Whom to end now, and why. ``roles``: those that have not ended; ``ended``: one has."""
        now = time.monotonic()
        self._forgive(now)
        traced = {role.name for role in roles if role.phase in (Phase.JOINING, Phase.TOLD) and is_traced(role.pid)}
        reasons = {role.name: why for role in roles if role.name not in traced and (why := _reason(role, roles, ended))}
        keys = {role.name: (role.name, reasons[role.name], role.heard) for role in roles if role.name in reasons}
        joining = [role for role in roles if role.phase is Phase.JOINING]
        start = _start(joining, keys)
        self._since = {key: self._since.get(key, now) for key in (*keys.values(), *start)}
        self._ask([role for role in joining if role.name in keys], keys, now)
        self._due = self._next(now, looks=bool(traced) or (ended and bool(roles)))
        if any(self._has_waited(key, now, ANSWERING) for key in start):
            return [(role, self._text(reasons[role.name], ANSWERING)) for role in joining]
        return [(role, self._text(reasons[role.name])) for role in self._late(roles, keys, joining, now)]

    def _late(
        self, roles: Collection[Waiting], keys: Mapping[str, _Key], joining: Collection[Waiting], now: float
    ) -> list[Waiting]:
        """Who has answered nothing for a grace; of those that start, all or none."""
        late = [role for role in roles if role.name in keys and self._has_waited(keys[role.name], now)]
        if any(role not in late for role in joining):
            return [role for role in late if role.phase is not Phase.JOINING]
        return late

    def _text(self, reason: str, graces: int = 1) -> str:
        return f"{reason}, and was ended after {graces * self.seconds:g} s"

    def _forgive(self, now: float) -> None:
        """Nobody has waited while this process was held up, by Ctrl-Z or with its container: nor could roles answer."""
        if self._due is not None and now - self._due > HELD_UP:
            self._since = {key: since + now - self._due for key, since in self._since.items()}

    def _has_waited(self, key: _Key, now: float, graces: float = 1) -> bool:
        return now - self._since[key] >= graces * self.seconds

    def _next(self, now: float, *, looks: bool) -> float | None:
        """The next time at which one will have waited long enough for something."""
        times = [since + part * self.seconds for since in self._since.values() for part in (0.5, 1, ANSWERING)]
        return min([each for each in times if each > now] + ([now + LOOK_SECONDS] if looks else []), default=None)

    def _ask(self, roles: Collection[Waiting], keys: Mapping[str, _Key], now: float) -> None:
        """A role that only waits for others in its start has Python's lock free, and answers."""
        self._asked &= self._since.keys()
        for role in roles:
            key = keys[role.name]
            if key not in self._asked and self._has_waited(key, now, 0.5):
                self._asked.add(key)
                role.send("ping")


def _start(joining: Collection[Waiting], keys: Collection[str]) -> list[_Key]:
    """The start of RPC in which all these roles are, if all of them may be given up."""
    names = [role.name for role in joining]
    return [("", " ".join(names), 0.0)] if names and all(name in keys for name in names) else []


def _reason(role: Waiting, roles: Collection[Waiting], ended: bool) -> str:
    """Why it may be given up, if this lasts; nothing where it may not."""
    stopped = is_stopped(role.pid) if ended or role.phase is Phase.JOINING else False
    if stopped:
        hopeless = ended and all(other.phase in WAITING or is_stopped(other.pid) for other in roles)
        return "was stopped, while all others had ended or waited" if hopeless else ""
    if role.phase is Phase.TOLD:
        return f"was stuck: it did not hear that {role.news}"
    if role.phase is Phase.JOINING and all(other.phase is not Phase.STARTING for other in roles):
        return "was stuck in the start of RPC"
    return ""
