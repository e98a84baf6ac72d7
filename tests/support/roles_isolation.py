"""Functions of roles in tests of isolated worlds."""

from __future__ import annotations

import os
import socket
import struct
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


def queue_limits() -> tuple[set[int], int]:
    """Return for how many connections the queues of this process's listeners have room, and the system's own limit."""
    found = set()
    for each in filter(Path.is_socket, Path("/proc/self/fd").iterdir()):
        with socket.socket(fileno=os.dup(int(each.name))) as own:
            if own.family == socket.AF_INET and own.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                # struct tcp_info: a listener's tcpi_sacked, after eight bytes and five numbers
                info = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
                found.add(struct.unpack("=8x6I", info)[5])
    return found, int(Path("/proc/sys/net/core/somaxconn").read_text())


def opened() -> int:
    """Return how many connections have been opened in this process's network."""
    names, numbers = [line.split() for line in Path("/proc/self/net/snmp").read_text().splitlines() if "Tcp:" in line]
    return int(numbers[names.index("ActiveOpens")])
