"""A role's end of the pipe to its launcher: send reports, receive work and news, and end with the launcher."""

from __future__ import annotations

import copyreg
import enum
import io
import multiprocessing.forkserver
import os
import pickle
import queue
import signal
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection
from typing import Any

import numpy as np
import torch

from reference.outcome import Outcome, PeerLost, Raised
from reference.system.processes import end_with_parent, pidfd_open

# An array of at least as many bytes is a part of its own.
LARGE = 1 << 16

_INTEGERS = {1: torch.int8, 2: torch.int16}


def _rebuild(array: np.ndarray[Any, Any], dtype: torch.dtype, requires_grad: bool) -> torch.Tensor:
    return torch.from_numpy(array).view(dtype).requires_grad_(requires_grad)


def _reduce(tensor: torch.Tensor) -> tuple[Callable[..., object], tuple[Any, ...]] | str:
    plain = type(tensor) is torch.Tensor and tensor.device.type == "cpu" and tensor.layout == torch.strided
    if not plain or tensor.is_quantized or tensor.is_complex():
        return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)  # type: ignore[no-any-return]
    bits = tensor.detach().resolve_neg().contiguous()
    if bits.is_floating_point() and bits.dtype not in (torch.float16, torch.float32, torch.float64):
        bits = bits.view(_INTEGERS[bits.element_size()])  # numpy lacks this dtype, so the bits are sent as integers
    return _rebuild, (bits.numpy(), tensor.dtype, tensor.requires_grad)


class Pickler(pickle.Pickler):
    dispatch_table = copyreg.dispatch_table.copy()
    dispatch_table[torch.Tensor] = _reduce


def dumps(value: object, pickler: type[Pickler] = Pickler) -> bytes:
    """Pickle ``value``. Raises pickle's own error for a value that cannot be sent."""
    buffer = io.BytesIO()
    pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


loads = pickle.loads


def parts(value: object) -> list[bytes | memoryview]:
    """Pickle ``value`` without its large arrays, which follow, each the sender's own memory instead of a copy."""
    buffer, large = io.BytesIO(), list[memoryview]()

    def stays(array: pickle.PickleBuffer) -> bool:
        raw = array.raw()
        if raw.nbytes >= LARGE:
            large.append(raw)
        return raw.nbytes < LARGE

    Pickler(buffer, pickle.HIGHEST_PROTOCOL, buffer_callback=stays).dump(value)
    return [buffer.getvalue(), *large]


_SHORT, _LONG = struct.Struct("!i"), struct.Struct("!Q")


def first_frame(kind: str, *content: object, attached: int = 0) -> bytes:
    """Make the first frame of a message to which so many ``attached`` frames belong."""
    return dumps((attached, kind, *content))


class Messages:
    """Collects bytes until they make whole messages, so that nobody waits for the rest of one."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._frames: list[bytearray] = []

    def add(self, chunk: bytes) -> Iterator[tuple[list[Any], list[bytearray]]]:
        """Yield the content and the attached frames of every message that ``chunk`` completes."""
        self._bytes += chunk
        while (frame := self._first_frame()) is not None:
            self._frames.append(frame)
            count, *content = loads(self._frames[0])
            if len(self._frames) > count:
                attached, self._frames = self._frames[1:], []
                yield content, attached

    def _first_frame(self) -> bytearray | None:
        """Take out the first frame, if it is whole. Before it stands its length, in 4 bytes, or -1 and 8 bytes."""
        for start, form in ((_SHORT.size, _SHORT), (_SHORT.size + _LONG.size, _LONG)):
            if len(self._bytes) < start:
                return None
            (length,) = form.unpack_from(self._bytes, start - form.size)
            if length >= 0:
                break
        if len(self._bytes) < start + length:
            return None
        frame = self._bytes[start : start + length]
        del self._bytes[: start + length]
        return frame


# Seconds that a role whose start or shutdown failed waits to hear which lost peer is the cause.
PEER_DEATH_SECONDS = 2.0


def die_with_parent() -> None:
    """Ask the kernel for SIGKILL when this process's parent, the forkserver, ends (Linux).

    The forkserver ends when no process has its pipe open any more. Every child has it open, to start processes of its
    own. So without this a stopped role would keep the forkserver running, and itself.
    """
    leave_forkserver()
    end_with_parent(signal.SIGKILL)


def leave_forkserver() -> None:
    """Close the pipe, inherited from the parent, that would keep its forkserver running as long as this process."""
    server: Any = multiprocessing.forkserver._forkserver
    if server._forkserver_alive_fd is not None:
        os.close(server._forkserver_alive_fd)
        server._forkserver_alive_fd = None


def raised(error: BaseException) -> Raised:
    """Make the outcome for ``error``; its type is the name by which it can be imported."""
    kind = type(error)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    text = "".join(traceback.format_exception(error))
    try:
        message = str(error)
    except Exception as second:  # the user's own __str__
        message = f"(its text cannot be made: {type(second).__name__})"
    types = tuple(each.__name__ for each in kind.__mro__ if issubclass(each, Exception))
    return Raised(name, message, text, types)


class Phase(enum.StrEnum):
    """The role reports the phases from `JOINING` to `FINISHED`; its launcher sets the others, and each sets `ENDED`."""

    STARTING = enum.auto()  # the process imports the launching script
    JOINING = enum.auto()  # the role starts RPC
    RUNNING = enum.auto()  # the role plays its function
    FINISHED = enum.auto()  # the function has returned, and only the common shutdown is left
    TOLD = enum.auto()  # the role was told that another role is lost
    SILENT = enum.auto()  # the role's pipe is closed: it reports nothing more
    GIVEN_UP = enum.auto()  # the role is ended before its deadline
    ENDED = enum.auto()


class Link:
    """Sends reports to the launcher from any thread; one background thread listens to it."""

    def __init__(self, pipe: connection.Connection, launcher: int) -> None:
        self.calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._pipe = pipe
        try:
            self._launcher = pidfd_open(launcher)
        except ProcessLookupError:  # the launcher was killed after it asked for this role
            self._die()
        self._lock = threading.RLock()
        self._phase = Phase.STARTING
        self._peer_death: str | None = None
        self._stack: str | None = None

    def listen(self) -> None:
        threading.Thread(target=self._listen, name="launcher", daemon=True).start()

    def send(self, kind: str, *content: object, attached: Sequence[bytes | memoryview] = ()) -> None:
        """Report to the launcher. Content that cannot be pickled raises an error, and nothing is sent."""
        first = first_frame(kind, *content, attached=len(attached))
        with self._lock:
            try:
                for frame in (first, *attached):
                    self._pipe.send_bytes(frame)
            except ConnectionError:  # the launcher is gone, or was interrupted while it started this role
                self._die()

    def enter(self, phase: Phase) -> None:
        """Move on to ``phase`` and tell the launcher. Raises PeerLost if a peer is known to be gone."""
        with self._lock:
            if self._peer_death is not None:
                raise PeerLost(self._peer_death)
            self._phase = phase
            self.send(phase.value)

    def end(self, outcome: Outcome) -> None:
        """Report the role's end. What its process still does has no other outcome, whichever peer is lost meanwhile."""
        with self._lock:
            self._phase = Phase.ENDED
            self.send("ended", outcome)

    def await_peer_death(self, error: RuntimeError) -> None:
        """Wait before reporting ``error``, which the start or the shutdown raised: a dead peer may be its cause.

        If it is, the launcher says so, and more clearly than torch's "eof": then the process ends here. Otherwise this
        returns after `PEER_DEATH_SECONDS`.
        """
        with self._lock:  # `_hear_of_peer_death` must find the whole text, or wait for it
            self._stack = "".join(traceback.format_exception(error))
        threading.Event().wait(PEER_DEATH_SECONDS)

    def _listen(self) -> None:
        sources: list[Any] = [self._pipe, self._launcher]
        while True:
            if self._pipe not in connection.wait(sources):
                self._die()  # the launcher is gone, although another process still has its end of the pipe
            try:
                kind, *content = loads(self._pipe.recv_bytes())
            except (EOFError, OSError):
                self._die()
            if kind == "peer_death":
                self._hear_of_peer_death(content[0])
            elif kind == "ping":
                self.send("here")
            else:
                self.calls.put((kind, *content))

    def _hear_of_peer_death(self, text: str) -> None:
        with self._lock:
            self._peer_death = text
            if self._phase in (Phase.RUNNING, Phase.ENDED):
                return  # the role notices the death itself, at the latest at its next phase, or has nothing left to do
            # The main thread waits inside torch and cannot be interrupted: rpc.shutdown() has no limit, and the
            # rendezvous of init_rpc waits for 24 days.
            frame = sys._current_frames().get(threading.main_thread().ident or 0)
            stack = self._stack or "".join(traceback.format_stack(frame))
            self.send("ended", Raised(f"{PeerLost.__module__}.{PeerLost.__qualname__}", text, stack))
            os._exit(1)

    @staticmethod
    def _die() -> None:
        os.killpg(0, signal.SIGKILL)
