"""Run one command in a process group of its own, with a time limit and bounded output. Imports no torch."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from reference.system.processes import no_pidfds, pidfd_open, readable, status_of_ended
from reference.system.text import BadInput, shown

# What is kept of a command's output, each of stdout and stderr: this many bytes of its begin and of its end.
KEPT = 2**16
# How often a command that runs looks whether it shall be ended (seconds).
LOOK = 0.1


@dataclass(frozen=True)
class Ended:
    """How a command ended. ``status``: its exit status, negative for a signal; None: it took too long."""

    status: int | None
    seconds: float
    stdout: bytes
    stderr: bytes


def run_command(command: Sequence[str], seconds: float, stop: threading.Event | None = None) -> Ended:
    """Run ``command`` for at most ``seconds``.

    When it ends, its time is over or ``stop`` is set, every process of its group is killed. It runs in the current
    folder, so that relative paths in the command are the user's.

    Raises:
        BadInput: the command cannot be started, or runs as another user (``sudo``) and did not end by itself.
    """
    begun = time.monotonic()
    process = _start(command)
    readers = [_Reader(pipe) for pipe in (process.stdout, process.stderr) if pipe is not None]
    status = None
    try:
        status = _wait(process, begun + seconds, stop or threading.Event())
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except PermissionError as error:
            if status is None:
                raise BadInput(f"cannot end {shown(command[0])}, which runs as another user: {process.pid}") from error
        process.wait()
        for reader in readers:
            reader.end()
    stdout, stderr = (reader.text() for reader in readers)
    return Ended(status, time.monotonic() - begun, stdout, stderr)


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    if reason := no_pidfds():
        raise BadInput(f"no command can be waited for here: {reason}")
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True)
    except OSError as error:
        raise BadInput(f"cannot start {shown(command[0])}: {error.strerror}") from error


def _wait(process: subprocess.Popen[bytes], until: float, stop: threading.Event) -> int | None:
    """Wait without reaping, because the group is to be killed."""
    handle = pidfd_open(process.pid)
    try:
        while not readable([handle], min(LOOK, max(0.0, until - time.monotonic()))):
            if time.monotonic() >= until or stop.is_set():
                return None
        return status_of_ended(process.pid)
    finally:
        os.close(handle)


class _Reader:
    """Reads a pipe to its end in a thread of its own, and keeps its begin and its end."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.pipe = pipe
        self.begin, self.rest, self.left_out = b"", b"", 0
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        while chunk := os.read(self.pipe.fileno(), 2**16):
            room = KEPT - len(self.begin)
            self.begin += chunk[:room]
            joined = self.rest + chunk[room:]
            self.left_out += max(0, len(joined) - KEPT)
            self.rest = joined[-KEPT:]

    def end(self) -> None:
        """Wait for the pipe's end: a process that left the group may hold it open, and is not waited for."""
        self.thread.join(1.0)
        if not self.thread.is_alive():
            self.pipe.close()

    def text(self) -> bytes:
        middle = f"\n... {self.left_out} bytes left out ...\n".encode() if self.left_out else b""
        return self.begin + middle + self.rest
