"""Start RPC without TensorPipe's shared-memory transport, for an agent whose options cannot choose its transports.

That transport waits by spinning, in a thread that uses a whole core of every role all the time. It would slow all other
roles, and change what a plan measures. TensorPipe leaves it out if it cannot have shared memory, and a limit on the
size of files prevents that.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch.distributed.rpc import api

_api: Any = api  # untyped, because one of its private functions is replaced below

# The size of the segment that TensorPipe makes to test whether it can have shared memory (bytes).
_SEGMENT = 1 << 20


@contextmanager
def without_shared_memory() -> Iterator[None]:
    """Make an agent that starts within the block use TCP. While it starts, no thread of this process can make a file
    larger than 1 MiB."""
    start = _api._set_and_start_rpc_agent
    _api._set_and_start_rpc_agent = partial(_limited, start)
    try:
        yield
    finally:
        _api._set_and_start_rpc_agent = start


def _limited(start: Callable[[Any], None], agent: Any) -> None:
    with small_files_only():
        start(agent)


@contextmanager
def small_files_only() -> Iterator[None]:
    """Within the block, let neither this process nor what it starts make a file as large as shared memory.

    Python ignores the signal for too large a file; the writer gets an error.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    lower = _SEGMENT - 1 if soft == resource.RLIM_INFINITY else min(soft, _SEGMENT - 1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (lower, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
