"""Start RPC without TensorPipe's shared-memory transport, for an agent whose options cannot choose its transports.

That one waits by spinning, in a thread that takes a whole core of every role, whatever the role does: it would slow
all others, and what a plan measures. TensorPipe leaves it out where it cannot have shared memory, and a limit on the
size of files denies it that.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch.distributed.rpc import api

_api: Any = api  # one of its private functions is replaced for a moment

# What TensorPipe asks for to see whether it can have any (bytes).
_SEGMENT = 1 << 20


@contextmanager
def without_shared_memory() -> Iterator[None]:
    """An agent that starts within uses TCP. Its other threads cannot make a file larger than 1 MiB while it starts."""
    start = _api._set_and_start_rpc_agent
    _api._set_and_start_rpc_agent = partial(_limited, start)
    try:
        yield
    finally:
        _api._set_and_start_rpc_agent = start


def _limited(start: Callable[[Any], None], agent: Any) -> None:
    """Python ignores the signal that a file over the limit brings; who made it gets an error."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    lower = _SEGMENT - 1 if soft == resource.RLIM_INFINITY else min(soft, _SEGMENT - 1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (lower, hard))
    try:
        start(agent)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
