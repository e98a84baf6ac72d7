"""The order of arrival: what is put into a trace comes out of it, or is refused."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from reference.trace import Trace, TraceError
from reference.trace.trace import Recorder
from reference.training.training_case import TrainingCase
from reference.training.worker_order import record_arrivals, recorded_arrivals


@dataclass(frozen=True)
class Sample(TrainingCase):
    """A case without fields of its own."""


def test_the_order_of_each_round_comes_out_of_the_trace() -> None:
    recorder = Recorder(Sample(), {})
    orders = [[2, 0, 1], [1, 2, 0]]
    for round_, order in enumerate(orders):
        record_arrivals(recorder, round_, order)
    trace = recorder.trace()
    assert list(trace.tensors) == ["0000/arrivals", "0001/arrivals"]
    assert [recorded_arrivals(trace, round_, 3) for round_ in range(2)] == orders


def test_no_trace_no_order() -> None:
    wanted = "the order of arrival decides bits: wanted the run's trace as replay, got None"
    with pytest.raises(TraceError, match=f"^{wanted}$"):
        recorded_arrivals(None, 0, 3)


@pytest.mark.parametrize("found", [[0, 1], [0, 1, 1], [1, 2, 3], [[0, 1, 2]], [0.0, 1.0, 2.0], None])
def test_an_order_that_is_not_each_trainer_once_is_refused(found: list[int] | None) -> None:
    trace = Trace(Sample(), {} if found is None else {"0007/arrivals": torch.tensor(found)})
    with pytest.raises(TraceError, match=r"^0007/arrivals: wanted each of 0 to 2 once, got "):
        recorded_arrivals(trace, 7, 3)
