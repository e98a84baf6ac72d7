"""Read how many bytes this process has received and sent over TCP, as the kernel counts them (Linux)."""

from __future__ import annotations

import os
import socket
import stat
import struct
from contextlib import suppress
from dataclasses import dataclass

# struct tcp_info of linux/tcp.h: tcpi_bytes_acked and tcpi_bytes_received, two u64 at this offset.
_BYTES_AT = 120


@dataclass(frozen=True)
class Traffic:
    """Bytes over this process's open TCP connections."""

    received: int
    sent: int

    def __sub__(self, earlier: Traffic) -> Traffic:
        return Traffic(self.received - earlier.received, self.sent - earlier.sent)


def traffic() -> Traffic:
    """Return the totals so far. Connections that have been closed do not count."""
    received = sent = 0
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 (a Path would open more descriptors)
        with suppress(OSError):  # closed after it was listed, no socket, or none of TCP
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                with socket.socket(fileno=os.dup(int(name))) as copy:
                    info = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                acknowledged, arrived = struct.unpack_from("=QQ", info, _BYTES_AT)
                received, sent = received + arrived, sent + acknowledged
    return Traffic(received, sent)
