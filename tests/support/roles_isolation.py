"""Functions of roles in tests of isolated worlds."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import torch
import torch.distributed.rpc as rpc


def network() -> str:
    """Return the network namespace of this process's main thread."""
    return str(Path("/proc/self/ns/net").readlink())


def reaches_file(path: str) -> bool:
    """Return whether a process listens at a socket that is a file."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(path)
        return True


def user() -> tuple[str, int, int]:
    """Return this process's user namespace, its user and its group."""
    return str(Path("/proc/self/ns/user").readlink()), os.getuid(), os.getgid()


def sum_at(peer: str, size: int) -> float:
    """Return the sum of so many ones that are sent to ``peer``."""
    return float(rpc.rpc_sync(peer, torch.sum, (torch.ones(size),), timeout=20))
