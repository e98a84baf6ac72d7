"""The placement of tensors on servers, whose rule tests/formulas has; and of roles on devices."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from reference.training.models import PARAMETERS, build_model
from reference.training.placement import device_in_turn, only, partition, shards


def model_of(kind: str) -> nn.Module:
    return build_model(kind, image_w=8, image_h=8, num_classes=5, seed=0, dtype="float32")


@pytest.mark.parametrize(("servers", "tensors"), [(0, 2), (3, 2), (-1, 2), (1, 0)])
def test_too_many_servers_are_refused(servers: int, tensors: int) -> None:
    with pytest.raises(
        ValueError, match=rf"^{servers} servers, wanted 1 to {tensors}: each needs at least one tensor$"
    ):
        shards({str(index): 1 for index in range(tensors)}, servers)


class Bare(nn.Module):
    """A buffer in a module without parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("counter", torch.zeros(1))


def test_a_buffer_of_a_module_without_parameters_lies_with_the_first_server() -> None:
    assert partition(Bare(), 2) == [["linear.weight", "counter"], ["linear.bias"]]


@pytest.mark.parametrize("kind", PARAMETERS)
def test_the_models_have_as_many_parameters_as_listed(kind: str) -> None:
    assert len(list(model_of(kind).parameters())) == PARAMETERS[kind]


@pytest.mark.parametrize(("kind", "servers"), [("convnet", 3), ("resnet50", 7), ("mlp", 4)])
def test_the_parts_are_the_model(kind: str, servers: int) -> None:
    """Each tensor is in one part, bit for bit, and the model itself does not change."""
    model = model_of(kind)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    parts = [dict(only(model, names).state_dict()) for names in partition(model, servers)]
    assert sum(len(part) for part in parts) == len(before)
    together = {name: tensor for part in parts for name, tensor in part.items()}
    assert together.keys() == before.keys() == model.state_dict().keys()
    assert all(torch.equal(together[name], tensor) for name, tensor in before.items())


def test_resnet50_is_spread_evenly() -> None:
    model = model_of("resnet50")
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    weights = [sum(sizes[name] for name in part) for part in shards(sizes, 4)]
    assert max(weights) - min(weights) < 0.01 * sum(weights)


def test_every_role_computes_on_the_cpu_unless_gpus_are_asked_for() -> None:
    assert [device_in_turn("cpu", rank) for rank in range(3)] == [torch.device("cpu")] * 3


def test_roles_share_two_gpus_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine need not have them, because the devices are only named."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [device_in_turn("cuda", rank) for rank in range(4)] == [
        torch.device("cuda", index) for index in (0, 1, 0, 1)
    ]
