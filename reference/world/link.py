"""A role's line to its launcher: reports one way, work and bad news the other; and its own death with it."""

from __future__ import annotations

import ctypes
import multiprocessing.forkserver
import os
import queue
import signal
import sys
import threading
import traceback
from multiprocessing import connection
from typing import Any

from reference.outcome import PeerLost, Raised
from reference.world import wire
from reference.world.phase import Phase

_PR_SET_PDEATHSIG = 1

# How long a role whose start or shutdown fails waits to hear which peer is the cause (seconds).
LOSS_SECONDS = 2.0


def die_with_parent() -> None:
    """Ask the kernel for SIGKILL when this process's parent, the forkserver, ends (Linux).

    The forkserver ends when nobody holds its pipe any more. Every child is given that pipe, to start processes
    of its own: a stopped role would keep the forkserver, and so itself.
    """
    server: Any = multiprocessing.forkserver._forkserver
    pipe: int | None = getattr(server, "_forkserver_alive_fd", None)
    if pipe is not None:
        os.close(pipe)
        server._forkserver_alive_fd = None
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def raised(error: BaseException) -> Raised:
    """The outcome that stands for ``error``, its type named as one would import it."""
    kind = type(error)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    text = "".join(traceback.format_exception(error))
    try:
        message = str(error)
    except Exception as second:  # the user's own __str__
        message = f"(its text cannot be made: {type(second).__name__})"
    return Raised(name, message, text)


class Link:
    """Thread-safe; one background thread listens.

    Phases: ``starting``, ``joining`` (the start of RPC), ``running``, ``finished`` (only the common shutdown is left).
    """

    def __init__(self, pipe: connection.Connection, launcher: int) -> None:
        self.calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._pipe = pipe
        self._launcher: int | None = None
        try:
            self._launcher = os.pidfd_open(launcher) if hasattr(os, "pidfd_open") else None
        except ProcessLookupError:  # killed since it asked for this role
            self._die()
        self._lock = threading.RLock()
        self._phase = Phase.STARTING
        self._lost: str | None = None
        self._stack: str | None = None

    def listen(self) -> None:
        threading.Thread(target=self._listen, name="launcher", daemon=True).start()

    def send(self, kind: str, *content: object) -> None:
        """Report to the launcher. What cannot be pickled raises here, and nothing is sent."""
        message = wire.dumps((kind, *content))
        with self._lock:
            self._pipe.send_bytes(message)

    def enter(self, phase: Phase) -> None:
        """Move on to ``phase`` and tell the launcher. Raises PeerLost if a peer is known to be gone."""
        with self._lock:
            if self._lost is not None:
                raise PeerLost(self._lost)
            self._phase = phase
            self.send(phase.value)

    def await_loss(self, error: RuntimeError) -> None:
        """Before ``error``, of the start or the shutdown, is reported: it may be news of a dead peer.

        Then the launcher knows as well, and what it says is better than torch's "eof". Does not return in that
        case; returns after `LOSS_SECONDS` in the other.
        """
        with self._lock:  # what is heard meanwhile has to wait for the text, not to find this thread at work on it
            self._stack = "".join(traceback.format_exception(error))
        threading.Event().wait(LOSS_SECONDS)

    def _listen(self) -> None:
        sources: list[Any] = [self._pipe] + ([] if self._launcher is None else [self._launcher])
        while True:
            if self._pipe not in connection.wait(sources):
                self._die()  # the launcher is gone, although something still holds its end of the pipe
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
                return  # it will meet the loss itself, at the latest when it enters the next phase
            # Main waits inside torch, which knows no way out: rpc.shutdown() has no limit, and the
            # rendezvous of init_rpc waits for 24 days.
            frame = sys._current_frames().get(threading.main_thread().ident or 0)
            stack = self._stack or "".join(traceback.format_stack(frame))
            self.send("ended", Raised(f"{PeerLost.__module__}.{PeerLost.__qualname__}", text, stack))
            os._exit(1)

    @staticmethod
    def _die() -> None:
        os.killpg(0, signal.SIGKILL)
