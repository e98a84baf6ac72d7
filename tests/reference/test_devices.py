"""Roles compute on the CPU, or on this machine's GPUs in turn."""

from __future__ import annotations

import pytest
import torch

from reference.training.placement import device_in_turn


def test_every_role_computes_on_the_cpu_unless_gpus_are_asked_for() -> None:
    assert [device_in_turn("cpu", rank) for rank in range(3)] == [torch.device("cpu")] * 3


def test_roles_share_two_gpus_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine need not have them, because the devices are only named."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [device_in_turn("cuda", rank) for rank in range(4)] == [
        torch.device("cuda", index) for index in (0, 1, 0, 1)
    ]
