"""Every test leaves behind what it found: no process, no thread, no temporary world."""

from __future__ import annotations

import multiprocessing.forkserver
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from tests.processes import children_of, left_after

# Properties: `default` makes the same examples each time; `--hypothesis-profile=soak` a hundred times as many new ones.
_calm = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", _calm, max_examples=100, derandomize=True)
settings.register_profile("soak", _calm, max_examples=10_000, derandomize=False)
settings.load_profile("default")

# A shell starts what runs in its background with Ctrl-C ignored, and children inherit that: tests of Ctrl-C need it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    return f"torch {torch.__version__}, {torch.get_num_threads()} threads in this process"


@pytest.fixture(autouse=True)
def _leaves_nothing(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Worlds of a test go to a folder of its own, which must be empty afterwards, killed launchers excepted."""
    folder = tmp_path_factory.mktemp("worlds")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    threads = set(threading.enumerate())
    kept = _roles()
    yield
    left = left_after(_roles() - kept, seconds=5)
    assert not left, f"processes left by this test: {left}"
    new = [thread.name for thread in set(threading.enumerate()) - threads if thread.name == "world"]
    assert not new, f"threads left by this test: {new}"
    if not request.node.get_closest_marker("kills_launcher"):
        assert [path.name for path in Path(folder).glob("world-*")] == []


def _roles() -> set[int]:
    """What the forkserver of this process has started."""
    server: int | None = multiprocessing.forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    return children_of(server) if server else set()
