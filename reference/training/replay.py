"""Read the order of events out of a run's trace, for a twin that replays it."""

from __future__ import annotations

import torch

from reference.system.printable import shown
from reference.trace.trace import Trace, TraceError


def replayed_order(replay: Trace | None, name: str, count: int) -> list[int]:
    """Return the numbers 0 to ``count`` - 1 in the order that the trace has under ``name``.

    Raises:
        TraceError: there is no trace, or its order does not have each number once.
    """
    if replay is None:
        raise TraceError("the order of arrival decides bits: wanted the run's trace as replay, got None")
    found = replay.tensors.get(name, torch.empty(0, dtype=torch.int64))
    order: list[int] = found.flatten().tolist()
    if found.dtype != torch.int64 or found.dim() != 1 or sorted(order) != list(range(count)):
        raise TraceError(f"{name}: wanted each of 0 to {count - 1} once, got {shown(found)}")
    return order
