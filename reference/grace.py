"""Roles that are given up before their deadline: they do not answer, and the world can only wait for them.

| a role | is given up |
|---|---|
| that was told of a loss, and does not end | a grace later |
| that starts RPC, as all others do or have done | when all that do have answered nothing for a grace |
| that is stopped, as by SIGSTOP, while others have ended and the rest can only wait | when that has lasted a grace |

The first two are stuck inside torch's start: where threads or memory are short, its agent's constructor waits for ever,
and holds Python's lock. So does one that waits for another role's name, hence "all".
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Protocol

from reference.kernel import is_stopped

# How long each is waited for by default (seconds).
SECONDS = 10.0

# How often a world of which a role has ended looks whether others are stopped (seconds).
LOOK_SECONDS = 0.5

_WAITING = ("starting", "joining", "finished", "told")


class Waiting(Protocol):
    """A role that has not ended, as its launcher sees it. ``heard``: when it last said something (monotonic seconds);
    ``news``: what it was told of a loss."""

    name: str
    pid: int
    phase: str
    heard: float
    news: str

    def send(self, *message: object) -> None: ...


class Grace:
    """``seconds``: how long each is waited for. For one thread."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._since: dict[tuple[str, str, float], float] = {}
        self._asked: set[tuple[str, str, float]] = set()
        self._looks = False

    def due(self) -> float | None:
        """When `given_up` has to be asked again (monotonic seconds)."""
        now = time.monotonic()
        times = [since + part * self.seconds for since in self._since.values() for part in (0.5, 1)]
        looks = [now + LOOK_SECONDS] if self._looks else []
        return min([each for each in times if each > now] + looks, default=None)

    def given_up(self, roles: Collection[Waiting], *, ended: bool) -> list[tuple[Waiting, str]]:
        """Whom to end now, and why. ``roles``: those that have not ended; ``ended``: one has."""
        now = time.monotonic()
        self._looks = ended and bool(roles)
        reasons = {role.name: why for role in roles if (why := _reason(role, roles, ended))}
        keys = {role.name: (role.name, reasons[role.name], role.heard) for role in roles if role.name in reasons}
        self._since = {key: self._since.get(key, now) for key in keys.values()}
        self._asked &= self._since.keys()
        late = [role for role in roles if self._has_waited(keys.get(role.name), now)]
        if any(role.phase == "joining" and role not in late for role in roles):
            late = [role for role in late if role.phase != "joining"]
        self._ask([role for role in roles if self._has_waited(keys.get(role.name), now, 0.5)], keys)
        return [(role, f"{reasons[role.name]}, and was ended after {self.seconds:g} s") for role in late]

    def _has_waited(self, key: tuple[str, str, float] | None, now: float, part: float = 1) -> bool:
        return key is not None and now - self._since[key] >= part * self.seconds

    def _ask(self, roles: Collection[Waiting], keys: dict[str, tuple[str, str, float]]) -> None:
        """Who only waits for others in its start has Python's lock free, and answers."""
        for role in roles:
            if role.phase == "joining" and keys[role.name] not in self._asked:
                self._asked.add(keys[role.name])
                role.send("ping")


def _reason(role: Waiting, roles: Collection[Waiting], ended: bool) -> str:
    """Why it may be given up, if this lasts; nothing where it may not."""
    stopped = is_stopped(role.pid) if ended or role.phase == "joining" else False
    if stopped:
        hopeless = ended and all(other.phase in _WAITING or is_stopped(other.pid) for other in roles)
        return "was stopped, while all others had ended or waited" if hopeless else ""
    if role.phase == "told":
        return f"was stuck: it did not hear that {role.news}"
    if role.phase == "joining" and all(other.phase != "starting" for other in roles):
        return "was stuck in the start of RPC"
    return ""
