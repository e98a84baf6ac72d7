"""What a new process would inherit: sent to a process that is there already, and taken over by it.

It imports nothing of this project, because `preforked_pytest` runs as a script beside it.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from typing import Any

# One thread per operator when torch is loaded, as `preload_first` sets it for every forkserver.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

ROOM = 1 << 17  # for a command with its environment (bytes)

_ABOVE = 500  # no descriptor of a command is as high
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


def send(
    connection: socket.socket,
    descriptors: Mapping[int, int],
    *,
    environment: Mapping[str, str],
    folder: str,
    **order: Any,
) -> None:
    """Send a process an order with everything that a new process would inherit from this one.

    ``descriptors``: this process's own, by their number in the other process.
    """
    ignored = [number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN]
    inherited = {
        "environment": dict(environment),
        "folder": folder,
        "blocked": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
        "ignored": [int(number) for number in ignored],
        "limits": [resource.getrlimit(each) for each in _LIMITS],
        "numbers": list(descriptors),
    }
    message = json.dumps({**order, "inherited": inherited}).encode()
    socket.send_fds(connection, [message], list(descriptors.values()))


def received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Wait for an order, and return it with its descriptors; empty if nobody can send one any more."""
    message, handles, _, _ = socket.recv_fds(connection, ROOM, 64)
    return (json.loads(message) if message else {}), handles


def take_over(
    handles: list[int],
    *,
    environment: dict[str, str],
    folder: str,
    blocked: list[int],
    ignored: list[int],
    limits: list[tuple[int, int]],
    numbers: list[int],
) -> None:
    """Take over what was sent as ``inherited``. Its signals have their default actions, as in a new Python."""
    for handle, number in zip([_moved(handle) for handle in handles], numbers, strict=True):
        os.dup2(handle, number)
        os.close(handle)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for each, limit in zip(_LIMITS, limits, strict=True):
        if resource.getrlimit(each) != tuple(limit):
            resource.setrlimit(each, limit)
    for number in ignored:
        with suppress(OSError):
            signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _moved(handle: int) -> int:
    """Move a descriptor away from those that the command names."""
    moved = fcntl(handle, F_DUPFD_CLOEXEC, _ABOVE)
    os.close(handle)
    return moved
