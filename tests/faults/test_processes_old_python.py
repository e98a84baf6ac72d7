"""Pythons that are built for old systems, as conda's are: they know neither pidfds nor files in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.suite_runs import ROOT

LACKS = """
import os, signal, time
for module, name in (os, "pidfd_open"), (os, "memfd_create"), (os, "P_PIDFD"), (os, "O_PATH"), (
    signal, "pidfd_send_signal"
), (time, "CLOCK_BOOTTIME"):
    if hasattr(module, name):
        delattr(module, name)
"""
PAUSED = "Pause role=trainer1 at=step:1@trainer2 seconds=0.1; Crash role=trainer1 at=step:2@trainer2"
CRASHED = "Crash role=customer at=call:__main__:pay#2@customer"
RUN = "from reference.conform.process import run_command as run; print('verdict:', run(['false'], 60).status)"


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        (["-m", "faults", "run", "batch_parameter_server", "--plan", PAUSED], "failed loudly"),
        (["-m", "faults", "run", "--plan", CRASHED, "--script", "examples/retries/naive.py"], "failed loudly"),
        (["-c", RUN], "1"),
    ],
    ids=["world", "script", "conform"],
)
def test_what_holds_a_process_works_there(command: list[str], wanted: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(LACKS)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert f"verdict: {wanted}" in done.stdout.splitlines(), done
