"""Set how long the remote calls of this process wait, for calls that do not say so themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed.rpc as rpc


@contextmanager
def rpc_timeout(seconds: float) -> Iterator[None]:
    """For a block: the limit of every call without one, backward passes and distributed steps included."""
    before = rpc.get_rpc_timeout()  # type: ignore[attr-defined]
    rpc._set_rpc_timeout(seconds)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        rpc._set_rpc_timeout(before)  # type: ignore[attr-defined]
