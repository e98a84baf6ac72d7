"""Give up roles before their deadline that do not answer while the world can only wait for them.

| a role | is given up |
|---|---|
| that was told of a loss, and does not end | a grace later |
| that starts RPC, as all others do or have done | when no starting role answers for a grace, or gets on for six |
| that is stopped, as by SIGSTOP, while others have ended and the rest can only wait | when that has lasted a grace |

Roles of the first two kinds are stuck inside torch's start. If threads or memory are short, the constructor of torch's
agent waits forever and holds the GIL. So does a constructor that waits for another role's name; therefore either all
starting roles are given up or none. The process groups of a start can wait forever, too, but they release the GIL, as a
slow start does; therefore a start in which roles still answer has six graces.

A role that a debugger is attached to is ended only by its deadline.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Protocol

from reference.system.processes import is_stopped, is_traced
from reference.world.link import Phase

# The phases in which a role can only wait for others.
WAITING = (Phase.STARTING, Phase.JOINING, Phase.FINISHED, Phase.TOLD)

# The default length of a grace in seconds.
SECONDS = 10.0

# The number of graces for a start of RPC in which roles still answer.
ANSWERING = 6

# Seconds between two checks whether roles are stopped (once a role has ended) or still have a debugger.
LOOK_SECONDS = 0.5

# If a check comes this many seconds late, the launching process itself was held up.
HELD_UP = 1.0


class Waiting(Protocol):
    """A role that has not ended, as its launcher sees it.

    ``heard``: when its last message came (monotonic seconds); ``news``: the loss that it was told of.
    """

    name: str
    pid: int
    phase: Phase
    heard: float
    news: str

    def send(self, *message: object) -> None: ...


# What is being waited for: a role, the reason to give it up, and when it was last heard; or all starting roles at once.
_Key = tuple[str, str, float]


class Grace:
    """Notes since when each role is stuck. ``seconds``: the length of a grace. To be used by one thread."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._since: dict[_Key, float] = {}
        self._asked: set[_Key] = set()
        self._due: float | None = None

    def due(self) -> float | None:
        """When `given_up` must be called again (monotonic seconds)."""
        return self._due

    def given_up(self, roles: Collection[Waiting], *, ended: bool) -> list[tuple[Waiting, str]]:
        """The roles to end now, each with the reason. ``roles``: all that have not ended; ``ended``: one has ended."""
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
        """The roles that have not answered for a grace; all starting roles or none of them."""
        late = [role for role in roles if role.name in keys and self._has_waited(keys[role.name], now)]
        if any(role not in late for role in joining):
            return [role for role in late if role.phase is not Phase.JOINING]
        return late

    def _text(self, reason: str, graces: int = 1) -> str:
        return f"{reason}, and was ended after {graces * self.seconds:g} s"

    def _forgive(self, now: float) -> None:
        """Do not count time in which this process was held up, by Ctrl-Z or with its container: roles were, too."""
        if self._due is not None and now - self._due > HELD_UP:
            self._since = {key: since + now - self._due for key, since in self._since.items()}

    def _has_waited(self, key: _Key, now: float, graces: float = 1) -> bool:
        return now - self._since[key] >= graces * self.seconds

    def _next(self, now: float, *, looks: bool) -> float | None:
        """The next time at which a role will have been stuck for long enough."""
        times = [since + part * self.seconds for since in self._since.values() for part in (0.5, 1, ANSWERING)]
        return min([each for each in times if each > now] + ([now + LOOK_SECONDS] if looks else []), default=None)

    def _ask(self, roles: Collection[Waiting], keys: Mapping[str, _Key], now: float) -> None:
        """Ping roles that are stuck: one that only waits for others in its start has released the GIL and answers."""
        self._asked &= self._since.keys()
        for role in roles:
            key = keys[role.name]
            if key not in self._asked and self._has_waited(key, now, 0.5):
                self._asked.add(key)
                role.send("ping")


def _start(joining: Collection[Waiting], keys: Collection[str]) -> list[_Key]:
    """One key for the start of RPC that all these roles are in, if all of them may be given up."""
    names = [role.name for role in joining]
    return [("", " ".join(names), 0.0)] if names and all(name in keys for name in names) else []


def _reason(role: Waiting, roles: Collection[Waiting], ended: bool) -> str:
    """The reason to give up a role if its state lasts; empty if there is none."""
    stopped = is_stopped(role.pid) if ended or role.phase is Phase.JOINING else False
    if stopped:
        hopeless = ended and all(other.phase in WAITING or is_stopped(other.pid) for other in roles)
        return "was stopped, while all others had ended or waited" if hopeless else ""
    if role.phase is Phase.TOLD:
        return f"was stuck: it did not hear that {role.news}"
    if role.phase is Phase.JOINING and all(other.phase is not Phase.STARTING for other in roles):
        return "was stuck in the start of RPC"
    return ""
