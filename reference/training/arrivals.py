"""The order in which trainers report in a round: into a run's trace, and out of it for a twin that replays it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from reference.system.printable import shown
from reference.trace.trace import Recorder, Trace, TraceError


def record_arrivals(recorder: Recorder, round_: int, order: Sequence[int]) -> None:
    """Put into the trace which trainers, by rank from 0, reported first to last."""
    recorder.put(f"{round_:04d}", {"arrivals": torch.tensor(order)})


def recorded_arrivals(replay: Trace | None, round_: int, trainers: int) -> list[int]:
    """Read what `record_arrivals` put into the trace.

    Raises:
        TraceError: there is no trace, or it does not have each of the ``trainers`` once.
    """
    name = f"{round_:04d}/arrivals"
    if replay is None:
        raise TraceError("the order of arrival decides bits: wanted the run's trace as replay, got None")
    found = replay.tensors.get(name, torch.empty(0, dtype=torch.int64))
    order: list[int] = found.flatten().tolist()
    if found.dtype != torch.int64 or found.dim() != 1 or sorted(order) != list(range(trainers)):
        raise TraceError(f"{name}: wanted each of 0 to {trainers - 1} once, got {shown(found)}")
    return order
