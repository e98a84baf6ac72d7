"""The order of asynchronous workers' events: by turns, as a trace has it, and what no trace may have."""

from __future__ import annotations

import pytest
import torch

from reference.parameter_server import Case
from reference.trace.trace import Trace, TraceError
from reference.training.worker_order import PULL, PUSH, as_tensors, by_turns, recorded_order

WORKERS = ["worker1", "worker2"]


def trace_of(events: torch.Tensor | None) -> Trace:
    return Trace(Case(steps=2, workers=2), {} if events is None else {"order/events": events})


def test_by_turns_each_worker_pulls_and_pushes() -> None:
    assert by_turns(2, 2) == [(PULL, 0), (PUSH, 0), (PULL, 1), (PUSH, 1)] * 2


def test_a_recorded_order_is_read_as_it_was() -> None:
    order = [(PULL, 1), (PULL, 0), (PUSH, 0), (PUSH, 1), (PULL, 0), (PULL, 1), (PUSH, 1), (PUSH, 0)]
    assert recorded_order(trace_of(as_tensors(order)["events"]), WORKERS, 2) == order


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (None, "worker1 did not pull and push by turns, 2 times each"),
        (torch.tensor(by_turns(2, 3)), "worker1 did not pull and push by turns, 2 times each"),
        (torch.tensor([(PUSH, 0), *by_turns(2, 2)[1:]]), "worker1 did not pull and push by turns, 2 times each"),
        (torch.tensor(by_turns(1, 2)), "worker2 did not pull and push by turns, 2 times each"),
        (torch.tensor(by_turns(3, 2)), "there is no worker 2, wanted 0 to 1"),
        (torch.tensor([0, 1]), "wanted pairs of kind and worker in torch.int64, got torch.int64 of shape (2,)"),
        (
            torch.tensor(by_turns(2, 2)).int(),
            "wanted pairs of kind and worker in torch.int64, got torch.int32 of shape (8, 2)",
        ),
    ],
)
def test_an_order_that_cannot_be_replayed_is_refused(events: torch.Tensor | None, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        recorded_order(trace_of(events), WORKERS, 2)
    assert str(caught.value) == f"order/events: {message}"
