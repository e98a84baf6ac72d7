"""RPC started again in the same process; torch 2.13."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support import roles_shutdown as plays
from tests.support.idle import idle
from tests.support.suite_runs import ROOT


def test_a_process_keeps_its_rank_for_life() -> None:
    """Distributed autograd is never taken down; the name may change."""
    with idle("ab") as world:
        world.run(dict.fromkeys("ab", plays.shutdown))
        refused = world.call("b", plays.start, "b", 0, 1, str(world.folder / "other"))
        text = "Container is already initialized with worker_id: 1, cannot initialize with different worker_id: 0"
        assert refused.error == "RuntimeError"
        assert refused.text == text
        assert world.call("a", plays.start, "z", 0, 1, str(world.folder / "alone")).error == ""
        assert world.call("a", plays.ask, "z").value == 2.0


@pytest.mark.long
def test_ranks_that_torchrun_starts_again_meet_if_each_start_has_a_store_of_its_own() -> None:
    """By default they meet at the store of the ranks before, and mostly fail."""
    place = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "1"]
    command = [sys.executable, "-m", "torch.distributed.run", *place, str(ROOT / "tests/scripts/start_again.py")]
    variables = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "TP_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n")) == ["", "worker0 has shut down", "worker1 has shut down"]
