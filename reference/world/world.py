"""A world: the processes of one run, from their start to their end. `launcher.launch` makes one."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from reference.outcome import (
    Killed,
    Outcome,
    Overdue,
    Raised,
    Returned,
    RoleFailed,
    WorldError,
    is_ended_with_another,
)
from reference.system import temporary_folders
from reference.system.files import log_of
from reference.system.processes import result_of
from reference.system.text import one_line
from reference.trace.progress import Report
from reference.world.role_handle import RoleHandle
from reference.world.start import check_deadline, new_rendezvous, pickled
from reference.world.supervisor import Supervisor

Function = Callable[..., object]

logger = logging.getLogger(__name__)

# The worlds that this process has launched and not closed.
alive: weakref.WeakSet[World] = weakref.WeakSet()

# The bytes of each log's end that are kept when the world's folder is removed.
LOG_TAIL = 1 << 16


@dataclass(frozen=True)
class Lost:
    """A role that a life of its world has lost. ``ended``: `time.monotonic`, seconds."""

    role: str
    outcome: Outcome
    ended: float
    pid: int


class World:
    """The processes of one run. `launch` makes it; leaving its ``with`` block ends every role at once.

    ``life`` says which life of the world this is, from 1, and ``lost`` by whose loss the earlier ones ended.
    """

    def __init__(
        self,
        handles: dict[str, RoleHandle],
        folder: Path,
        begin: Callable[[], int],
        restarts: int,
        *,
        keep: bool,
        idle: bool,
        on_progress: Report | None,
        grace: float,
        isolated: bool,
    ) -> None:
        """``begin`` starts the processes of a life, and returns the step from which it goes on."""
        self.folder = folder
        self.life = 1
        self.lost: list[Lost] = []
        # Whether the roles have a network of their own.
        self.isolated = isolated
        self._handles = handles
        self._idle = idle
        self._tails: dict[str, str] = {}
        self._begin, self._restarts = begin, restarts
        self._lives = threading.RLock()  # held while a life begins, and while all roles are told to end
        self._launcher = os.getpid()
        self._watch = partial(Supervisor, handles, on_progress, grace)
        self._error: tuple[str, str, int] | None = None
        # A world that is never closed is cleaned when it is garbage-collected, or when this interpreter exits.
        self._clean = weakref.finalize(self, clean, handles, folder, keep, self._launcher)
        self._begin_life()
        alive.add(self)

    def _begin_life(self) -> None:
        try:
            self._start = self._begin()
        except BaseException:
            _end(self._handles)
            raise
        if self._start or self.life > 1:
            where = f"goes on after step {self._start}" if self._start else "begins with the first step"
            logger.info("life %d %s", self.life, where)
        try:
            supervisor = self._watch(whole=self.life <= self._restarts)
            supervisor.start()
        except (RuntimeError, OSError) as error:
            _end(self._handles)  # nobody watches them
            raise WorldError(f"the roles cannot be watched: {error}") from error
        self._supervisor = supervisor

    @property
    def pids(self) -> dict[str, int]:
        """Each role's process id, which is also its process group."""
        return {name: handle.pid for name, handle in self._handles.items()}

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """The outcomes of the roles that have ended so far."""
        return {name: handle.outcome for name, handle in self._handles.items() if handle.outcome is not None}

    @property
    def busy(self) -> bool:
        """Whether a role still plays its function, or an idle role has a call to answer."""
        return any(handle.calls or not self._idle for handle in self._handles.values() if handle.outcome is None)

    @property
    def ended(self) -> dict[str, float]:
        """When each role ended that has ended so far (`time.monotonic`, seconds)."""
        return {name: handle.ended for name, handle in self._handles.items() if handle.ended is not None}

    def wait(self) -> dict[str, Outcome]:
        """Wait until all roles have ended, at the latest 6 s after the deadline, and return every outcome.

        A death is noticed when it happens. If a role is lost and all others wait in vain for a common start or
        shutdown, these raise `PeerLost`. Idle roles (see `launch`) are told to shut down. A world that may be started
        again is, and the outcomes are those of its last life.

        Raises:
            WorldError: the world's supervisor failed, or ``on_progress`` calls this.
            Unusable: a later life finds no checkpoint that can be used.
        """
        if self._idle:
            for handle in self._handles.values():
                handle.send("stop")
        while True:
            supervisor = self._supervisor
            supervisor.wait()
            self._check_supervisor()
            with self._lives:
                if supervisor is not self._supervisor:  # another thread has begun the next life
                    continue
                if not self._is_to_go_on():
                    return self.outcomes
                self.life += 1
                new_rendezvous(self.folder)
                self._begin_life()

    def _check_supervisor(self) -> None:
        """If the supervisor has failed, and has ended all roles therefore, raise WorldError."""
        if self._supervisor.error is not None:
            raise WorldError(f"the world's supervisor failed: {self._supervisor.error}") from self._supervisor.error

    def _is_to_go_on(self) -> bool:
        """Whether this life was lost, and another one is to begin. Says why it was lost."""
        lost = [
            Lost(name, handle.outcome, handle.ended, handle.pid)
            for name, handle in self._handles.items()
            if handle.outcome and handle.ended and not isinstance(handle.outcome, Returned)
            if not is_ended_with_another(handle.outcome)
        ]
        if not lost or self.life > self._restarts:
            return False
        # Who was killed, or left, is the cause of what others raised, which may have been told before. Who was to be
        # ended with another one, and ended by itself, is no cause.
        dropped = {name for name, handle in self._handles.items() if handle.dropped}
        first = min(lost, key=lambda each: (each.role in dropped, isinstance(each.outcome, Raised), each.ended))
        seen = self._error
        overdue = isinstance(first.outcome, Overdue) and not first.outcome.why  # the deadline is that of all lives
        self._error = None if isinstance(first.outcome, Killed) else (first.role, str(first.outcome), self._start)
        again = self._error is not None and self._error == seen
        why = f"life {self.life} ended: {first.role} {first.outcome}{', as before' if again else ''}"
        logger.info("%s", one_line(why))
        if again or overdue:
            return False
        self.lost += lost
        return True

    def call(self, role: str, function: Function, *args: object, deadline: float = 60) -> Any:
        """Run ``function(*args)`` on an idle role and return its value.

        Raises:
            RoleFailed: the function raised, or the role ended. A role that misses ``deadline`` (seconds) is ended.
            WorldError: there is no such role, it is not idle or has shut down, its world is closed, or the function
                cannot be sent.
        """
        outcome = result_of(self._supervisor.submit(role, self._work(role, function, args, deadline), deadline))
        if not isinstance(outcome, Returned):
            self._check_supervisor()
            raise RoleFailed(role, outcome, self.log(role, LOG_TAIL))
        return outcome.value

    def run(self, roles: Mapping[str, Function], *, deadline: float = 60) -> dict[str, Outcome]:
        """Run these functions on the idle roles of these names, all at once, and wait for each one's outcome.

        Raises:
            WorldError: as `call`; or the world's supervisor failed.
        """
        # If one cannot be called, none is.
        works = {name: self._work(name, function, (), deadline) for name, function in roles.items()}
        futures = {name: self._supervisor.submit(name, work, deadline) for name, work in works.items()}
        outcomes = {name: result_of(future) for name, future in futures.items()}
        self._check_supervisor()
        return outcomes

    def log(self, role: str, tail: int | None = None) -> str:
        """Read the role's standard output and error; after the world's end only the last 64 KiB.

        ``tail``: while the world lasts, read only this many bytes from the end. Raises WorldError: no such role.
        """
        self._check_role(role)
        if role in self._tails:
            return self._tails[role]
        with suppress(FileNotFoundError), log_of(self.folder, role).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0 if tail is None else max(0, size - tail))
            return file.read().decode(errors="replace")
        return ""

    def expire(self) -> dict[str, Outcome]:
        """Set every role's deadline to now, and wait until all have ended, within 6 s (`launch`).

        Raises:
            WorldError: ``on_progress`` calls this.
        """
        with self._lives:
            self._restarts = 0  # nor does another thread's `wait` start anything
            self._supervisor.expire()
        self._supervisor.wait()
        return self.outcomes

    def close(self) -> None:
        """End every role that has not ended. No process is left, and no file unless the caller gave a folder.

        In a forked child of the launching process it does nothing.
        """
        if os.getpid() != self._launcher:
            return
        alive.discard(self)
        with self._lives:
            self._restarts = 0  # `wait` starts nothing any more
            self._supervisor.whole = False  # of the roles that end now none is lost by another one's end
            _kill(self._handles)
        self._supervisor.wait()
        self._tails = {name: self.log(name, LOG_TAIL) for name in self._handles}
        self._clean()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_role(self, role: str) -> None:
        if role not in self._handles:
            raise WorldError(f"no role {role!r}, wanted one of {', '.join(self._handles)}")

    def _work(self, role: str, function: Function, args: tuple[object, ...], deadline: float) -> bytes:
        """Pickle a call, once it is clear that it can be made."""
        check_deadline(deadline)
        self._check_role(role)
        if not self._clean.alive:
            raise WorldError(f"{role} cannot be called: its world is closed")
        if not self._idle:
            raise WorldError(f"{role} plays a function of its own: wanted a world launched with names for calls")
        return pickled(f"the call to {role}", (function, args))


def _kill(handles: Mapping[str, RoleHandle]) -> None:
    for handle in handles.values():
        if handle.outcome is None:
            handle.kill()


def _end(handles: Mapping[str, RoleHandle]) -> None:
    for handle in handles.values():
        if handle.outcome is None:
            handle.kill()
            handle.end()


def clean(handles: Mapping[str, RoleHandle], place: Path, keep: bool, launcher: int) -> None:
    if os.getpid() != launcher:  # a forked child
        return
    _kill(handles)
    if not keep:
        temporary_folders.remove(place)
