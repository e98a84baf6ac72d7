"""Supervise a world from its launcher: one thread sees every report, death and deadline when it happens.

It gives up roles before their deadline that do not answer while the world can only wait for them:

| a role | is given up |
|---|---|
| that was told of a death, and does not end | a grace later |
| that starts RPC, as all others do or have done | when no starting role answers for a grace, or gets on for six |
| that is stopped, as by SIGSTOP, while others have ended and the rest can only wait | when that has lasted a grace |

Roles of the first two kinds are stuck inside torch's start. If threads or memory are short, the constructor of torch's
agent waits forever and holds the GIL. So does a constructor that waits for another role's name; therefore either all
starting roles are given up or none. The process groups of a start can wait forever, too, but they release the GIL, as a
slow start does; therefore a start in which roles still answer has six graces.

All this takes many roles longer, so in a world of more than 50 a grace grows with their number.

A role that a debugger is attached to is ended only by its deadline.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from multiprocessing import connection
from typing import Any

from reference.outcome import Outcome, Returned, WorldError
from reference.system.processes import is_ending, is_stopped, is_traced, wait_until
from reference.system.text import one_line
from reference.trace.progress import Report
from reference.world.link import Phase
from reference.world.role_handle import STACKS_SECONDS, RoleHandle

# The phases in which a role can only wait for others.
WAITING = (Phase.STARTING, Phase.JOINING, Phase.FINISHED, Phase.TOLD)

# The default length of a grace in seconds.
GRACE = 10.0

# The number of graces for a start of RPC in which roles still answer.
ANSWERING = 6

# The most roles for which a grace is enough. On two busy cores 256 took more than 10 s to make their agents.
MANY = 50

# Seconds between two checks whether roles are stopped (once a role has ended) or still have a debugger.
LOOK_SECONDS = 0.5

# If a check comes this many seconds late, the launching process itself was held up.
HELD_UP = 1.0


# What is being waited for: a role, the reason to give it up, and when it was last heard; or all starting roles at once.
_Key = tuple[str, str, float]


class Supervisor(threading.Thread):
    """The thread that watches all roles, until every handle has its outcome."""

    def __init__(
        self, handles: dict[str, RoleHandle], on_progress: Report | None, grace: float, *, whole: bool = False
    ) -> None:
        """``whole``: with the first role that is lost end all, because they will be started again."""
        super().__init__(name="world", daemon=True)
        self.handles = handles
        self.error: BaseException | None = None
        self._on_progress = on_progress
        self.whole = whole
        self._grace = Grace(grace, len(handles))
        self._numbers = itertools.count()
        self._wake, self._waker = connection.Pipe(duplex=False)
        os.set_blocking(self._waker.fileno(), False)  # if it is full, the thread looks anyway
        self._lock = threading.Lock()
        self._done = threading.Event()

    def wait(self) -> None:
        """Wait until every handle has its outcome. `join` would not do: if it is interrupted, it says that it ended."""
        self._refuse_itself()
        wait_until(self._done.wait)
        self.join()

    def submit(self, name: str, work: bytes, deadline: float) -> Future[Outcome]:
        """Send pickled ``(function, args)`` to an idle role; due ``deadline`` seconds from now."""
        self._refuse_itself()
        future: Future[Outcome] = Future()
        handle = self.handles[name]
        with self._lock:
            if isinstance(handle.outcome, Returned):
                raise WorldError(f"{name} has shut down")
            if handle.outcome is not None:
                future.set_result(handle.outcome)
                return future
            number = next(self._numbers)
            handle.calls[number] = (future, time.monotonic() + deadline)
            self._look_again()  # before the role gets it: one that is stopped may keep this thread waiting
        handle.send("call", number, work)
        return future

    def _refuse_itself(self) -> None:
        if threading.current_thread() is self:
            raise WorldError("on_progress cannot wait for its own world, nor call, close or expire it")

    def expire(self) -> None:
        """Set every deadline to now."""
        with self._lock:
            for handle in self._open():
                handle.due = time.monotonic()
            self._look_again()

    def _look_again(self) -> None:
        """Wake the thread, because the next deadline may have changed. Hold the lock: its end closes the pipe."""
        with contextlib.suppress(OSError):
            self._waker.send_bytes(b"look")

    def run(self) -> None:
        try:
            while self._open():
                self._look()
        except BaseException as error:
            self.error = error
            for handle in self._open():
                handle.kill()
                with self._lock:
                    handle.end()
        finally:
            with self._lock:
                self._wake.close()
                self._waker.close()
            self._done.set()

    def _open(self) -> list[RoleHandle]:
        return [handle for handle in self.handles.values() if handle.outcome is None]

    def _look(self) -> None:
        handles = self._open()
        pipes: dict[Any, RoleHandle] = {handle.pipe: handle for handle in handles if handle.phase is not Phase.SILENT}
        sentinels = {handle.process.sentinel: handle for handle in handles}
        times = [due for _, due in self._deadlines()] + ([self._grace.due] if self._grace.due is not None else [])
        timeout = max(0.0, min(times) - time.monotonic()) if times else None
        ready = connection.wait([self._wake, *pipes, *sentinels], timeout)
        if self._wake in ready:
            self._wake.recv_bytes()
        for source in ready:
            if source in pipes and not pipes[source].receive(self._on_progress):
                pipes[source].phase = Phase.SILENT
        for source in ready:
            if source in sentinels:
                self._end(sentinels[source])
        self._tell_of_deaths()
        self._give_up()
        self._end_overdue()

    def _give_up(self) -> None:
        rest = self._open()
        # The first role last: its process holds the store at which the others wait, and would fail without it.
        for handle, why in reversed(self._grace.given_up(rest, ended=len(rest) < len(self.handles))):
            handle.give_up(why)

    def _end_overdue(self) -> None:
        late = [handle for handle, due in self._deadlines() if due <= time.monotonic()]
        # Roles that only wait to shut down are victims: they are told whom they waited for, and report that.
        culprits = [handle for handle in late if handle.phase not in (Phase.FINISHED, Phase.TOLD)]
        for handle in culprits or late:
            handle.overdue()
        for handle in late if culprits else []:
            if handle not in culprits:
                handle.due = time.monotonic() + 2 * STACKS_SECONDS

    def _deadlines(self) -> list[tuple[RoleHandle, float]]:
        with self._lock:
            both = [(handle, handle.deadline()) for handle in self._open()]
        return [(handle, due) for handle, due in both if due is not None]

    def _end(self, handle: RoleHandle) -> None:
        while handle.pipe.poll() and handle.receive(self._on_progress):
            pass
        with self._lock:
            handle.end()

    def _tell_of_deaths(self) -> None:
        """If a role is gone and the others only wait for a common start or shutdown, tell them: they wait in vain."""
        dead = [s for s in self.handles.values() if s.outcome is not None and not isinstance(s.outcome, Returned)]
        if not dead:
            return
        rest = self._open()
        text = one_line("; ".join(f"{handle.name} {handle.outcome}" for handle in dead), 1000)  # has to fit into a pipe
        if self.whole:
            for handle in rest:
                if handle.asked is not None:  # it writes its stacks
                    continue
                handle.dropped = handle.dropped or ("" if is_ending(handle.pid) else text)
                handle.kill()
            return
        if all(handle.phase in WAITING for handle in rest):
            for handle in rest:
                is_to_hear = handle.phase is not Phase.TOLD and handle.report is None
                if is_to_hear and handle.send("peer_death", text, wait=False):
                    handle.phase, handle.news = Phase.TOLD, text


class Grace:
    """Notes since when each role is stuck. ``seconds``: a grace of up to `MANY` roles. To be used by one thread."""

    def __init__(self, seconds: float, roles: int = 1) -> None:
        self.seconds = seconds * max(1.0, roles / MANY)
        self._since: dict[_Key, float] = {}
        self._asked: set[_Key] = set()
        # When `given_up` must be called again (monotonic seconds).
        self.due: float | None = None

    def given_up(self, roles: Collection[RoleHandle], *, ended: bool) -> list[tuple[RoleHandle, str]]:
        """The roles to end now, each with the reason. ``roles``: all that have not ended; ``ended``: one has ended."""
        now = time.monotonic()
        self._forgive(now)
        traced = {role.name for role in roles if role.phase in (Phase.JOINING, Phase.TOLD) and is_traced(role.pid)}
        reasons = {role.name: why for role in roles if role.name not in traced and (why := _reason(role, roles, ended))}
        keys = {role.name: (role.name, reasons[role.name], role.heard) for role in roles if role.name in reasons}
        joining = [role for role in roles if role.phase is Phase.JOINING]
        start = _start(joining, keys)
        self._since = {key: self._since.get(key, now) for key in (*keys.values(), *start)}
        asked = self._ask([role for role in joining if role.name in keys], keys, now)
        self.due = self._next(now, looks=bool(traced) or (ended and bool(roles)) or not asked)
        if any(self._has_waited(key, now, ANSWERING) for key in start):
            return [(role, self._text(reasons[role.name], ANSWERING)) for role in joining]
        return [(role, self._text(reasons[role.name])) for role in self._late(roles, keys, joining, now)]

    def _late(
        self, roles: Collection[RoleHandle], keys: Mapping[str, _Key], joining: Collection[RoleHandle], now: float
    ) -> list[RoleHandle]:
        """The roles that have not answered for a grace; all starting roles or none of them."""
        late = [role for role in roles if role.name in keys and self._has_waited(keys[role.name], now)]
        if any(role not in late for role in joining):
            return [role for role in late if role.phase is not Phase.JOINING]
        return late

    def _text(self, reason: str, graces: int = 1) -> str:
        return f"{reason}, and was ended after {graces * self.seconds:g} s"

    def _forgive(self, now: float) -> None:
        """Do not count time in which this process was held up, by Ctrl-Z or with its container: roles were, too."""
        if self.due is not None and now - self.due > HELD_UP:
            self._since = {key: since + now - self.due for key, since in self._since.items()}

    def _has_waited(self, key: _Key, now: float, graces: float = 1) -> bool:
        return now - self._since[key] >= graces * self.seconds

    def _next(self, now: float, *, looks: bool) -> float | None:
        """The next time at which a role will have been stuck for long enough."""
        times = [since + part * self.seconds for since in self._since.values() for part in (0.5, 1, ANSWERING)]
        return min([each for each in times if each > now] + ([now + LOOK_SECONDS] if looks else []), default=None)

    def _ask(self, roles: Collection[RoleHandle], keys: Mapping[str, _Key], now: float) -> bool:
        """Ping roles that are stuck: one that only waits for others in its start has released the GIL and answers.

        Return whether all could be sent what they have to be.
        """
        self._asked &= self._since.keys()
        stuck = [role for role in roles if self._has_waited(keys[role.name], now, 0.5)]
        owed = {keys[role.name]: role for role in stuck if keys[role.name] not in self._asked}
        self._asked |= {key for key, role in owed.items() if role.send("ping", wait=False)}
        return self._asked >= owed.keys()


def _start(joining: Collection[RoleHandle], keys: Collection[str]) -> list[_Key]:
    """One key for the start of RPC that all these roles are in, if all of them may be given up."""
    names = [role.name for role in joining]
    return [("", " ".join(names), 0.0)] if names and all(name in keys for name in names) else []


def _reason(role: RoleHandle, roles: Collection[RoleHandle], ended: bool) -> str:
    """The reason to give up a role if its state lasts; empty if there is none."""
    stopped = (ended or role.phase is Phase.JOINING) and is_stopped(role.pid)
    if stopped:
        hopeless = ended and all(other.phase in WAITING or is_stopped(other.pid) for other in roles)
        return "was stopped, while all others had ended or waited" if hopeless else ""
    if role.phase is Phase.TOLD:
        return f"was stuck: it did not hear that {role.news}"
    if role.phase is Phase.JOINING and all(other.phase is not Phase.STARTING for other in roles):
        return "was stuck in the start of RPC"
    return ""
