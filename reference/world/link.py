"""A role's end of the pipe to its launcher: send reports, receive work and news, and end with the launcher."""

from __future__ import annotations

import ctypes
import multiprocessing.forkserver
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from multiprocessing import connection
from typing import Any

from reference.outcome import PeerLost, Raised
from reference.world import wire
from reference.world.frames import first_frame
from reference.world.phase import Phase

_PR_SET_PDEATHSIG = 1

# Seconds that a role whose start or shutdown failed waits to hear which lost peer is the cause.
LOSS_SECONDS = 2.0


def die_with_parent() -> None:
    """Ask the kernel for SIGKILL when this process's parent, the forkserver, ends (Linux).

    The forkserver ends when no process has its pipe open any more. Every child has it open, to start processes of its
    own. So without this a stopped role would keep the forkserver running, and itself.
    """
    server: Any = multiprocessing.forkserver._forkserver
    pipe: int | None = getattr(server, "_forkserver_alive_fd", None)
    if pipe is not None:
        os.close(pipe)
        server._forkserver_alive_fd = None
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def raised(error: BaseException) -> Raised:
    """Make the outcome for ``error``; its type is the name by which it can be imported."""
    kind = type(error)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    text = "".join(traceback.format_exception(error))
    try:
        message = str(error)
    except Exception as second:  # the user's own __str__
        message = f"(its text cannot be made: {type(second).__name__})"
    return Raised(name, message, text)


class Link:
    """Sends reports to the launcher from any thread; one background thread listens to it.

    Phases: ``starting``, ``joining`` (the start of RPC), ``running``, ``finished`` (only the common shutdown is left).
    """

    def __init__(self, pipe: connection.Connection, launcher: int) -> None:
        self.calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._pipe = pipe
        self._launcher: int | None = None
        try:
            self._launcher = os.pidfd_open(launcher) if hasattr(os, "pidfd_open") else None
        except ProcessLookupError:  # the launcher was killed after it asked for this role
            self._die()
        self._lock = threading.RLock()
        self._phase = Phase.STARTING
        self._lost: str | None = None
        self._stack: str | None = None

    def listen(self) -> None:
        threading.Thread(target=self._listen, name="launcher", daemon=True).start()

    def send(self, kind: str, *content: object, attached: Sequence[bytes | memoryview] = ()) -> None:
        """Report to the launcher. Content that cannot be pickled raises an error, and nothing is sent."""
        first = first_frame(kind, *content, attached=len(attached))
        with self._lock:
            for frame in (first, *attached):
                self._pipe.send_bytes(frame)

    def enter(self, phase: Phase) -> None:
        """Move on to ``phase`` and tell the launcher. Raises PeerLost if a peer is known to be gone."""
        with self._lock:
            if self._lost is not None:
                raise PeerLost(self._lost)
            self._phase = phase
            self.send(phase.value)

    def await_loss(self, error: RuntimeError) -> None:
        """Wait before reporting ``error``, which the start or the shutdown raised: a dead peer may be its cause.

        If it is, the launcher says so, and more clearly than torch's "eof": then the process ends here. Otherwise this
        returns after `LOSS_SECONDS`.
        """
        with self._lock:  # `_hear_of_loss` must find the whole text, or wait for it
            self._stack = "".join(traceback.format_exception(error))
        threading.Event().wait(LOSS_SECONDS)

    def _listen(self) -> None:
        sources: list[Any] = [self._pipe] + ([] if self._launcher is None else [self._launcher])
        while True:
            if self._pipe not in connection.wait(sources):
                self._die()  # the launcher is gone, although another process still has its end of the pipe
            try:
                kind, *content = wire.loads(self._pipe.recv_bytes())
            except (EOFError, OSError):
                self._die()
            if kind == "lost":
                self._hear_of_loss(content[0])
            elif kind == "ping":
                self.send("here")
            else:
                self.calls.put((kind, *content))

    def _hear_of_loss(self, text: str) -> None:
        with self._lock:
            self._lost = text
            if self._phase is Phase.RUNNING:
                return  # the role will notice the loss itself, at the latest when it enters the next phase
            # The main thread waits inside torch and cannot be interrupted: rpc.shutdown() has no limit, and the
            # rendezvous of init_rpc waits for 24 days.
            frame = sys._current_frames().get(threading.main_thread().ident or 0)
            stack = self._stack or "".join(traceback.format_stack(frame))
            self.send("ended", Raised(f"{PeerLost.__module__}.{PeerLost.__qualname__}", text, stack))
            os._exit(1)

    @staticmethod
    def _die() -> None:
        os.killpg(0, signal.SIGKILL)
