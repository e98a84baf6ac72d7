"""Orders of workers and of arrivals that no twin can replay. tests/formulas and tests/properties replay others."""

from __future__ import annotations

import pytest
import torch

from reference.parameter_server import Case
from reference.trace.trace import Trace, TraceError
from reference.training.worker_order import PUSH, by_turns, recorded_arrivals, recorded_order

WORKERS = ["worker1", "worker2"]


def trace_of(events: torch.Tensor | None) -> Trace:
    return Trace(Case(steps=2, workers=2), {} if events is None else {"order/events": events})


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


def test_no_trace_no_order() -> None:
    wanted = "the order of arrival decides bits: wanted the run's trace as replay, got None"
    with pytest.raises(TraceError, match=f"^{wanted}$"):
        recorded_arrivals(None, 0, 3)


@pytest.mark.parametrize("found", [[0, 1], [0, 1, 1], [1, 2, 3], [[0, 1, 2]], [0.0, 1.0, 2.0], None])
def test_an_order_that_is_not_each_trainer_once_is_refused(found: list[int] | None) -> None:
    trace = Trace(Case(), {} if found is None else {"0007/arrivals": torch.tensor(found)})
    with pytest.raises(TraceError, match=r"^0007/arrivals: wanted each of 0 to 2 once, got "):
        recorded_arrivals(trace, 7, 3)
