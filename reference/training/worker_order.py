"""The order in which asynchronous workers pull parameters and push gradients, or trainers report, in a trace."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from reference.system.text import shown
from reference.trace.recorder import Recorder
from reference.trace.trace import Trace, TraceError


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


PULL, PUSH = 0, 1

# The kind of call, and the worker's number from 0.
Event = tuple[int, int]


def by_turns(workers: int, steps: int) -> list[Event]:
    """The order in which each worker in turn pulls and pushes; the only order if there is one worker."""
    return [(kind, worker) for _ in range(steps) for worker in range(workers) for kind in (PULL, PUSH)]


def as_tensors(order: Sequence[Event]) -> dict[str, torch.Tensor]:
    """Make the tensors that a trace has under ``order``."""
    return {"events": torch.tensor(order, dtype=torch.int64)}


def recorded_order(run: Trace, workers: Sequence[str], steps: int) -> list[Event]:
    """Read the order of events in a run's trace, with ``steps`` of each kind by each worker.

    Raises:
        TraceError: the trace has no order, or a worker did not pull and push by turns.
    """
    events = run.tensors.get("order/events", torch.empty(0, 2, dtype=torch.int64))
    if events.dtype != torch.int64 or events.dim() != 2 or events.shape[1] != 2:
        got = f"{events.dtype} of shape {tuple(events.shape)}"
        raise TraceError(f"order/events: wanted pairs of kind and worker in {torch.int64}, got {got}")
    order = [(kind, worker) for kind, worker in events.tolist()]
    kinds: dict[int, list[int]] = {}
    for kind, worker in order:
        kinds.setdefault(worker, []).append(kind)
    for index, name in enumerate(workers):
        turns = kinds.pop(index, [])
        if len(turns) != 2 * steps or turns != [PULL, PUSH] * steps:
            raise TraceError(f"order/events: {name} did not pull and push by turns, {steps} times each")
    if kinds:
        raise TraceError(f"order/events: there is no worker {min(kinds)}, wanted 0 to {len(workers) - 1}")
    return order
