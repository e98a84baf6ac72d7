"""The placement of tensors on servers, whose rule tests/formulas has; and of roles on devices."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from reference.training.models import PARAMETERS, build_model
from reference.training.placement import device_in_turn, partition, shards


@pytest.mark.parametrize(("servers", "tensors"), [(0, 2), (3, 2), (-1, 2), (1, 0)])
def test_too_many_servers_are_refused(servers: int, tensors: int) -> None:
    wanted = rf"^{servers} servers, wanted 1 to {tensors}: each needs at least one tensor$"
    with pytest.raises(ValueError, match=wanted):
        shards({str(index): 1 for index in range(tensors)}, servers)


def test_a_buffer_of_a_module_without_parameters_lies_with_the_first_server() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    model.register_buffer("counter", torch.zeros(1))
    assert partition(model, 2) == [["0.weight", "counter"], ["0.bias"]]


@pytest.mark.parametrize("kind", PARAMETERS)
def test_the_models_have_as_many_parameters_as_listed(kind: str) -> None:
    model = build_model(kind, image_w=8, image_h=8, num_classes=5, seed=0, dtype="float32")
    assert len(list(model.parameters())) == PARAMETERS[kind]


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(RuntimeError, match=r"^device 'cuda' is not available on this machine, wanted 'cpu'$"):
        device_in_turn("cuda", 0)


def test_roles_share_two_gpus_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine need not have them, because the devices are only named."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [device_in_turn("cuda", rank).index for rank in range(4)] == [0, 1, 0, 1]
