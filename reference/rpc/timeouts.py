"""Set the default timeout of this process's remote calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed.rpc as rpc


@contextmanager
def rpc_timeout(seconds: float) -> Iterator[None]:
    """Set, for a block, the timeout of every call without one, including backward passes and distributed steps."""
    before = rpc.get_rpc_timeout()  # type: ignore[attr-defined]
    rpc._set_rpc_timeout(seconds)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        rpc._set_rpc_timeout(before)  # type: ignore[attr-defined]
