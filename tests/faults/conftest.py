"""The environments in which tests run programs of a user's own, and a callee in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.inject.call.delivery import CalleeState
from faults.inject.messages import small_files_only
from faults.ledger import Ledger
from tests.support import script_runs


@pytest.fixture
def plain(warm_start: None, tmp_path: Path) -> Iterator[None]:
    """Let programs find this project only by `run_script`, and leave their files in the test's folder."""
    with script_runs.plain(tmp_path):
        yield


@pytest.fixture
def plain_over_tcp(warm_start: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let programs find this project only by `run_script`, and use TCP, because the default transport spins."""
    monkeypatch.setenv("TP_SOCKET_IFNAME", "lo")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with small_files_only():
        yield


@pytest.fixture
def callee(tmp_path: Path) -> Iterator[None]:
    """Let this process execute calls with faults, as role b."""
    file = Ledger(tmp_path, "b")
    CalleeState.open = CalleeState(file)
    yield
    CalleeState.open = None
    file.close()
