"""The transport of the RPC programs that tests start: torch's default one, or TCP only."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager

# The size of the segment that TensorPipe makes to test whether it can have shared memory (bytes).
SEGMENT = 1 << 20


@contextmanager
def tcp_only() -> Iterator[None]:
    """Let programs that start within the block use TCP: they can make no file large enough for shared memory.

    Where TensorPipe has shared memory, one thread of every process spins, which took half of all the time of these
    tests on two cores. The programs' own files are smaller.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SEGMENT - 1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
