"""The header of a report describes this machine."""

from __future__ import annotations

import re

import pytest
import torch

import conftest
from faults.inject import messages
from faults.inject.network import network


def test_the_header_names_torch_the_transport_and_every_place_for_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = conftest.pytest_report_header()
    assert first.startswith(f"torch {torch.__version__}, ")
    assert first.endswith("; transports uv, channels cma basic")
    assert re.fullmatch(r"calls: .+; faulty agent: .+; namespaces: .+", second)
    monkeypatch.setattr(messages, "missing", lambda: "")
    monkeypatch.setattr(network, "missing", lambda: "no root")
    assert conftest.pytest_report_header()[1].endswith("faulty agent: available; namespaces: no root")
