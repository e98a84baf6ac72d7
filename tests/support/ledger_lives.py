"""Processes that write ledgers, a line when they are told to: ``python -m tests.support.ledger_lives SOCKET`` forks
them.

That process imports no torch, so a fork takes a millisecond. Each process has a connection of its own to the test.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from faults.ledger import Ledger

ROOT = Path(__file__).parents[2]
# Seconds for anything that a process is told.
LIMIT = 60.0


class Lives:
    """The test's side: each order has been carried out when its method returns. Processes are known by their ids."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._connections: dict[int, socket.socket] = {}
        self._first = self._met()

    @classmethod
    @contextmanager
    def started(cls, folder: Path) -> Iterator[Self]:
        place = folder / "socket"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(place))
            listener.listen()
            listener.settimeout(LIMIT)
            with subprocess.Popen([sys.executable, "-m", "tests.support.ledger_lives", place], cwd=ROOT) as first:
                try:
                    lives = cls(listener)
                    yield lives
                finally:
                    first.kill()
                    for connection in lives._connections.values():
                        connection.close()  # each process ends when its connection does

    def begin(self, folder: Path, role: str) -> int:
        """Start a process that opens a role's ledger."""
        return self._forked(self._first, "begin", str(folder), role)

    def fork(self, process: int) -> int:
        """Let a process fork; the child has its parent's ledger."""
        return self._forked(process, "fork")

    def write(self, process: int, event: str, details: dict[str, Any]) -> None:
        self._tell(process, "write", event, details)
        assert self._connections[process].recv(1) == b"."

    def close(self, process: int) -> None:
        self._tell(process, "close")
        assert self._connections[process].recv(1) == b"."

    def kill(self, process: int) -> None:
        """Kill a process, and wait until it has ended."""
        os.kill(process, signal.SIGKILL)
        with self._connections.pop(process) as connection:
            assert connection.recv(1) == b""

    def _tell(self, process: int, *order: object) -> None:
        self._connections[process].sendall(json.dumps(order).encode() + b"\n")

    def _forked(self, process: int, *order: object) -> int:
        self._tell(process, *order)
        return self._met()

    def _met(self) -> int:
        connection, _ = self._listener.accept()
        connection.settimeout(LIMIT)
        process = int.from_bytes(connection.recv(8, socket.MSG_WAITALL))
        self._connections[process] = connection
        return process


def _obey(address: str, ledger: Ledger | None = None) -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    connection.sendall(os.getpid().to_bytes(8))
    for line in connection.makefile("rb"):
        kind, *given = json.loads(line)
        if kind in ("begin", "fork") and os.fork() == 0:
            os.close(connection.fileno())
            _obey(address, Ledger(Path(given[0]), given[1]) if kind == "begin" else ledger)
            os._exit(0)
        if kind == "write" and ledger is not None:
            ledger.write(given[0], **given[1])
            connection.sendall(b".")
        if kind == "close" and ledger is not None:
            ledger.close()
            connection.sendall(b".")


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _obey(sys.argv[1])
