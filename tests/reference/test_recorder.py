"""The recorder: what a run records, and what only a twin does that follows another run."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest
import torch
from torch import nn

from reference.rpc_basics import Case as BasicsCase
from reference.trace import Recorder
from reference.trace.recorder import following

CASE = BasicsCase(steps=2)


def test_recorder_keeps_plain_tensors() -> None:
    """Views, transposed and expanded ones can be saved: each is contiguous, has memory of its own, and no gradient."""
    whole = torch.arange(6.0, requires_grad=True).reshape(2, 3)
    recorder = Recorder(CASE, {"whole": whole, "again": whole, "turned": whole.t(), "wide": whole[:, :1].expand(2, 4)})
    trace = recorder.trace()
    assert all(tensor.is_contiguous() and not tensor.requires_grad for tensor in trace.tensors.values())
    assert len({tensor.data_ptr() for tensor in trace.tensors.values()}) == 4
    assert trace.tensors["initial/turned"].tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert trace.tensors["initial/wide"].tolist() == [[0.0] * 4, [3.0] * 4]


def test_recorder_takes_parameters_and_gradients_from_a_module_or_by_name() -> None:
    layer = nn.Linear(2, 1)
    recorder = Recorder(BasicsCase(steps=3), layer)
    layer(torch.ones(1, 2)).sum().backward()
    layer.bias.grad = None  # a parameter without a gradient has none in the trace
    recorder.step(0, {}, layer)
    recorder.step(1, {}, {"by name": layer.weight})
    recorder.step(2, {}, {"w": layer.weight}, {"given": torch.full((2,), 7.0)})
    got = recorder.trace().tensors
    assert got["0000/gradient/weight"].tolist() == got["0001/gradient/by name"].tolist() == [[1.0, 1.0]]
    assert got["0002/gradient/given"].tolist() == [7.0, 7.0]
    assert [name for name in got if "/gradient/" not in name] == [
        *("0000/parameter/bias", "0000/parameter/weight", "0001/parameter/by name", "0002/parameter/w"),
        *("initial/bias", "initial/weight"),
    ]


def test_recorder_logs_one_line_a_step(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(BasicsCase(steps=2), {})
    with caplog.at_level(logging.INFO, logger="reference.trace.progress"):
        recorder.step(0, {"a": torch.tensor(1.0), "b": torch.tensor(2.0)}, {})
        recorder.step(1, {}, {"w": torch.ones(1)})  # a server that sees no losses has nothing to report
        recorder.step(1, {"a": torch.tensor(0.25)}, {})
    assert [record.getMessage() for record in caplog.records] == ["step 1 of 2, loss 1.5", "step 2 of 2, loss 0.25"]
    found = [(each["step"], each["steps"], each["loss"]) for each in map(vars, caplog.records)]
    assert found == [(1, 2, 1.5), (2, 2, 0.25)]


def outputs(followed: Mapping[str, torch.Tensor], *inputs: torch.Tensor) -> dict[str, torch.Tensor]:
    """Let a twin's model compute something of each input in step 0; return what is recorded of its layers."""
    linear = nn.Linear(2, 3)
    nn.init.constant_(linear.weight, -1.0)
    nn.init.zeros_(linear.bias)
    model = nn.Sequential(linear, nn.ReLU(inplace=True), nn.Identity())
    with following(followed):
        recorder = Recorder(CASE, {})
    with recorder.outputs(0, "a", model):
        for each in inputs:
            model(each)
    model(torch.zeros(1, 2))  # after the block nothing is recorded
    return recorder.trace().tensors


def test_a_twin_that_follows_nothing_records_all_outputs_in_the_order_of_the_layers() -> None:
    found = outputs({}, torch.ones(1, 2))
    assert [(name, tensor.tolist()) for name, tensor in found.items()] == [
        ("0000/output/a/0", [[-2.0] * 3]),  # before the next layer changes it in place
        ("0000/output/a/1", [[0.0] * 3]),
        ("0000/output/a/2", [[0.0] * 3]),
    ]


def test_a_twin_that_follows_a_run_records_the_outputs_that_the_run_has() -> None:
    assert set(outputs({"0000/output/a/1": torch.zeros(1)}, torch.ones(1, 2))) == {"0000/output/a/1"}


def test_outputs_of_a_layer_that_runs_several_times_are_stacked() -> None:
    found = outputs({}, torch.ones(1, 2), torch.zeros(1, 2))
    assert found["0000/output/a/0"].tolist() == [[[-2.0] * 3], [[0.0] * 3]]


def test_outputs_of_several_shapes_are_not_recorded() -> None:
    assert outputs({}, torch.ones(1, 2), torch.ones(2, 2)) == {}


def test_an_lstm_puts_out_its_states_by_layer() -> None:
    layer = nn.LSTM(2, 3, num_layers=2)
    with following({}):
        recorder = Recorder(CASE, {})
    with recorder.outputs(0, "a", nn.ModuleDict({"rnn": layer})):
        output, (hidden, cell) = layer(torch.ones(4, 1, 2))
    found = recorder.trace().tensors
    assert torch.equal(found["0000/output/a/rnn"], output)
    assert torch.equal(found["0000/output/a/rnn.hidden"], hidden)
    assert torch.equal(found["0000/output/a/rnn.cell"], cell)
