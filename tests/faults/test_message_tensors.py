"""The tensors of a message are those of the table that RPC's own pickler makes, in its order."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.distributed.rpc.internal import _internal_rpc_pickler
from torch.futures import Future

from faults.inject.call.corruption import MessageTensors


@dataclass
class Batch:
    images: torch.Tensor
    labels: list[torch.Tensor]


def messages() -> list[Any]:
    twice = torch.ones(2)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    return [
        (print, (torch.ones(1), {"a": torch.zeros(2)}), {"b": [torch.ones(3)]}),
        Batch(torch.ones(2), [torch.zeros(1), torch.ones(1)]),
        model,
        (twice, [twice], model[0].weight),
        ("no", 7, None),
    ]


@pytest.mark.parametrize("number", range(5))
def test_positions_are_those_in_the_table_of_rpc(number: int) -> None:
    message = messages()[number]
    _, table = _internal_rpc_pickler.serialize(message)
    found = MessageTensors(message).tensors
    assert [each.data_ptr() for each in found] == [each.data_ptr() for each in table]
    assert [each.shape for each in found] == [each.shape for each in table]
    assert len(found) == [3, 3, 7, 2, 0][number]


def test_a_replaced_tensor_arrives_and_the_others_stay_themselves() -> None:
    first, second = torch.ones(2), torch.zeros(2)
    batch = Batch(first, [second, first])
    copy = MessageTensors(batch).replaced(0, torch.full((2,), 7.0))
    assert (copy.images.tolist(), copy.labels[1].tolist()) == ([7.0, 7.0], [7.0, 7.0])
    assert copy.labels[0] is second
    assert batch.images is first


def test_a_models_parameter_is_replaced_by_its_data() -> None:
    model = torch.nn.Linear(2, 1, bias=False)
    copy = MessageTensors(model).replaced(0, torch.full((1, 2), 7.0))
    assert isinstance(copy.weight, torch.nn.Parameter)
    assert copy(torch.ones(2)).item() == 14.0
    assert not torch.equal(model.weight.data, copy.weight.data)


def test_what_only_rpc_can_send_stays_the_same_object() -> None:
    future: Future[int] = Future()
    again, copy = MessageTensors((future, torch.ones(1))).replaced(0, torch.zeros(1))
    assert again is future
    assert copy.item() == 0.0


def test_what_cannot_be_pickled_raises() -> None:
    with pytest.raises(TypeError, match="cannot pickle"):
        MessageTensors(threading.Lock())
