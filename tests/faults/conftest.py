"""What tests of this room share: where programs run, and what this process does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.inject.call.delivery import CalleeState
from faults.inject.messages import small_files_only
from faults.ledger import Ledger
from tests.support import script_runs
from tests.support.suite_runs import ROOT


@pytest.fixture
def plain(one_thread: None, tmp_path: Path) -> Iterator[None]:
    """Let programs find this checkout, and leave their files in the test's folder."""
    with script_runs.plain(tmp_path):
        yield


@pytest.fixture
def plain_over_tcp(one_thread: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let programs find this checkout, and use TCP, because the default transport spins."""
    monkeypatch.setenv("TP_SOCKET_IFNAME", "lo")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with small_files_only():
        yield


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the test's folder the current one."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def own_temporary_files(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process keep runs that fail in a folder of the test."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("stored")))


@pytest.fixture
def callee(tmp_path: Path) -> Iterator[None]:
    """Let this process execute calls with faults, as role b."""
    file = Ledger(tmp_path, "b")
    CalleeState.open = CalleeState(file)
    yield
    CalleeState.open = None
    file.close()
