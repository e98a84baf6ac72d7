"""A world: the processes of one run, from their start to their end. `launcher.launch` makes one."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from reference.outcome import Outcome, Returned, RoleFailed, WorldError
from reference.system import temporary_folders
from reference.world.role_handle import Progress, RoleHandle
from reference.world.start import check_deadline, pickled
from reference.world.supervisor import Supervisor

Function = Callable[..., object]

# Those that this process has launched and not closed.
alive: weakref.WeakSet[World] = weakref.WeakSet()

# Kept of each log when the world's folder goes (bytes).
LOG_TAIL = 1 << 16


class World:
    """The processes of one run. Made by `launch`; leaving its ``with`` block ends every role at once."""

    def __init__(
        self,
        handles: dict[str, RoleHandle],
        folder: Path,
        *,
        keep: bool,
        idle: bool,
        on_progress: Progress | None,
        grace: float,
        isolated: bool,
    ) -> None:
        self.folder = folder
        # Whether its roles have a network of their own.
        self.isolated = isolated
        self._handles = handles
        self._idle = idle
        self._tails: dict[str, str] = {}
        # Also for a world that nobody closed: when it is collected, or when this interpreter exits.
        self._clean = weakref.finalize(self, clean, handles, folder, keep)
        self._supervisor = Supervisor(handles, on_progress, grace)
        try:
            self._supervisor.start()
        except RuntimeError as error:
            raise WorldError(f"the roles cannot be watched: {error}") from error
        alive.add(self)

    @property
    def pids(self) -> dict[str, int]:
        """Each role's process id, which is also its process group."""
        return {name: handle.pid for name, handle in self._handles.items()}

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """How the roles that have ended so far did end."""
        return {name: handle.outcome for name, handle in self._handles.items() if handle.outcome is not None}

    @property
    def busy(self) -> bool:
        """Whether a role still plays, or, of idle ones, has a call to answer."""
        return any(handle.calls or not self._idle for handle in self._handles.values() if handle.outcome is None)

    @property
    def ended(self) -> dict[str, float]:
        """When the roles that have ended so far did end (`time.monotonic`, seconds)."""
        return {name: handle.ended for name, handle in self._handles.items() if handle.ended is not None}

    def wait(self) -> dict[str, Outcome]:
        """Every role's outcome, when all have one: at the latest 6 s after the deadline.

        A death is seen when it happens. Once a role is lost and all others wait in vain for a common start
        or shutdown, these raise `PeerLost`. Idle roles (see `launch`) are told to shut down.
        """
        if self._idle:
            for handle in self._handles.values():
                handle.send("stop")
        self._supervisor.wait()
        if self._supervisor.error is not None:
            raise WorldError(f"the world's supervisor failed: {self._supervisor.error}") from self._supervisor.error
        return self.outcomes

    def call(self, role: str, function: Function, *args: object, deadline: float = 60) -> Any:
        """Run ``function(*args)`` on an idle role and return its value.

        Raises:
            RoleFailed: it raised, or the role ended; a role that misses ``deadline`` (seconds) is ended.
            WorldError: no such role, not an idle one, one that has shut down, or a function that cannot be sent.
        """
        outcome = self._submit(role, function, args, deadline).result()
        if not isinstance(outcome, Returned):
            raise RoleFailed(role, outcome)
        return outcome.value

    def run(self, roles: Mapping[str, Function], *, deadline: float = 60) -> dict[str, Outcome]:
        """Play ``roles`` on the idle roles of those names, at once, and wait for each one's outcome."""
        for name in roles:
            self._check_call(name, deadline)
        futures = {name: self._submit(name, function, (), deadline) for name, function in roles.items()}
        return {name: future.result() for name, future in futures.items()}

    def log(self, role: str, tail: int | None = None) -> str:
        """What the role has written to its standard output and error; after the world's end the last 64 KiB.

        ``tail``: only so many bytes from the end.
        """
        if role in self._tails:
            return self._tails[role]
        with suppress(FileNotFoundError), (self.folder / f"{role}.log").open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0 if tail is None else max(0, size - tail))
            return file.read().decode(errors="replace")
        return ""

    def expire(self) -> dict[str, Outcome]:
        """Take every role that has not ended for overdue now: each writes its stacks and is ended, within 6 s."""
        self._supervisor.expire()
        self._supervisor.wait()
        return self.outcomes

    def close(self) -> None:
        """End every role that has not ended. Nothing is left: no process, no file unless a folder was given."""
        alive.discard(self)
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

    def _submit(self, role: str, function: Function, args: tuple[object, ...], deadline: float) -> Future[Outcome]:
        self._check_call(role, deadline)
        return self._supervisor.submit(role, pickled(f"the call to {role}", (function, args)), deadline)

    def _check_call(self, role: str, deadline: float) -> None:
        check_deadline(deadline)
        if role not in self._handles:
            raise WorldError(f"no role {role!r}, wanted one of {', '.join(self._handles)}")
        if not self._idle:
            raise WorldError(f"{role} plays a function of its own: only a world launched with names takes calls")


def _kill(handles: Mapping[str, RoleHandle]) -> None:
    for handle in handles.values():
        if handle.outcome is None:
            handle.kill()


def clean(handles: Mapping[str, RoleHandle], place: Path, keep: bool) -> None:
    _kill(handles)
    if not keep:
        temporary_folders.remove(place)
