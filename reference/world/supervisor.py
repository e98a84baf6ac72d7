"""Supervise a world from its launcher: one thread sees every report, death and deadline when it happens."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from concurrent.futures import Future
from multiprocessing import connection
from typing import Any

from reference.outcome import Outcome, Returned, WorldError
from reference.system.processes import wait_until
from reference.world.grace import Grace
from reference.world.link import Phase
from reference.world.role_handle import STACKS_SECONDS, Progress, RoleHandle


class Supervisor(threading.Thread):
    """The thread that watches all roles, until every handle has its outcome."""

    def __init__(self, handles: dict[str, RoleHandle], on_progress: Progress | None, grace: float) -> None:
        super().__init__(name="world", daemon=True)
        self.handles = handles
        self.error: BaseException | None = None
        self._on_progress = on_progress
        self._grace = Grace(grace)
        self._numbers = itertools.count()
        self._wake, self._waker = connection.Pipe(duplex=False)
        self._lock = threading.Lock()
        self._done = threading.Event()

    def wait(self) -> None:
        """Wait until every handle has its outcome. `join` would not do: if it is interrupted, it says that it ended."""
        wait_until(self._done.wait)
        self.join()

    def submit(self, name: str, work: bytes, deadline: float) -> Future[Outcome]:
        """Send pickled ``(function, args)`` to an idle role; due ``deadline`` seconds from now."""
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
        handle.send("call", number, work)
        self._look_again()
        return future

    def expire(self) -> None:
        """Set every deadline to now."""
        with self._lock:
            for handle in self._open():
                handle.due = time.monotonic()
        self._look_again()

    def _look_again(self) -> None:
        """Wake the thread, because the next deadline may have changed."""
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
                handle.process.join()
                handle.end()
        finally:
            self._wake.close()
            self._waker.close()
            self._done.set()

    def _open(self) -> list[RoleHandle]:
        return [handle for handle in self.handles.values() if handle.outcome is None]

    def _look(self) -> None:
        handles = self._open()
        pipes: dict[Any, RoleHandle] = {handle.pipe: handle for handle in handles if handle.phase is not Phase.SILENT}
        sentinels = {handle.process.sentinel: handle for handle in handles}
        times = [due for _, due in self._deadlines()] + ([due] if (due := self._grace.due()) is not None else [])
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
        self._tell_of_losses()
        self._give_up()
        self._end_overdue()

    def _give_up(self) -> None:
        rest = {handle.name: handle for handle in self._open()}
        for role, why in self._grace.given_up(rest.values(), ended=len(rest) < len(self.handles)):
            rest[role.name].give_up(why)

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
        while handle.phase is not Phase.SILENT and handle.pipe.poll():
            if not handle.receive(self._on_progress):
                handle.phase = Phase.SILENT
        with self._lock:
            handle.end()

    def _tell_of_losses(self) -> None:
        """If a role is gone and the others only wait for a common start or shutdown, tell them: they wait in vain."""
        lost = [s for s in self.handles.values() if s.outcome is not None and not isinstance(s.outcome, Returned)]
        rest = self._open()
        if lost and all(handle.phase in (Phase.STARTING, Phase.JOINING, Phase.FINISHED) for handle in rest):
            text = "; ".join(f"{handle.name} {handle.outcome}" for handle in lost)
            for handle in rest:
                handle.phase, handle.news = Phase.TOLD, text
                handle.send("lost", text)
