"""`check --ended`: the end of programs that something else started is recorded, and the run is judged by it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faults.cli.main import main
from faults.inject.messages import small_files_only
from faults.judge.facts import how_all_ended
from faults.ledger import record
from faults.ledger.ledger import SCHEMA, boot_id
from faults.script.script import environment_for
from tests.support.script_runs import own

pytestmark = pytest.mark.usefixtures("plain_over_tcp")


@pytest.mark.long
def test_a_run_that_has_ended_is_no_longer_unknown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "run"
    assert main(["prepare", str(place), "--plan", "Duplicate site=__main__:pay role=till nth=1"]) == 0
    command = [sys.executable, own("stall.py", tmp_path), "tolerant"]
    with small_files_only():  # no transport that spins: torch's first error imports a second's work of modules
        assert subprocess.run(command, env=environment_for(place), timeout=100).returncode == 0
    capfd.readouterr()
    assert main(["check", str(place)]) == 3
    assert "verdict: unknown" in capfd.readouterr().out
    assert main(["check", str(place), "--ended", "0"]) == 0
    assert "verdict: unchecked" in capfd.readouterr().out
    assert main(["check", str(place)]) == 0  # it is recorded
    assert main(["check", str(place), "--ended", "0"]) == 2
    assert "tells how its run ended: wanted one that `prepare` made" in capfd.readouterr().err


def folder(place: Path, pid: int, boot: str) -> Path:
    """Make the folder of a run of one role, which has started, and has written nothing since."""
    assert main(["prepare", str(place), "--healthy"]) == 0
    now = time.monotonic()
    start = {"event": "start", "schema": SCHEMA, "time": now, "process": pid, "pid": pid, "wall": 1.0, "boot": boot}
    up = {"event": "up", "time": now + 1, "process": pid, "workers": ["till"]}
    (place / "till.jsonl").write_text(f"{json.dumps(start)}\n{json.dumps(up)}\n")
    return place


@pytest.mark.parametrize(
    ("mine", "status", "verdict", "end"),
    [
        (True, "0", "leaked", "still ran when the command had ended"),
        (False, "0", "unchecked", "is gone without a word"),
        (False, "137", "wrong", "is gone without a word"),
        (False, "1", "wrong", "is gone without a word"),
    ],
)
def test_processes_of_this_machine_are_looked_for(
    mine: bool, status: str, verdict: str, end: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another machine may have a process of the same number."""
    place = folder(tmp_path / "run", os.getpid(), boot_id() if mine else "another machine's")
    assert main(["check", str(place), "--ended", status]) == (verdict != "unchecked")
    assert f"verdict: {verdict}" in capsys.readouterr().out
    assert how_all_ended(record.read(place))["till"] == end
    kinds = {"0": "Returned", "137": "Killed", "1": "Exited"}
    assert record.read(place).ends["+command"].kind == kinds[status]


@pytest.mark.parametrize("text", ["", "-1", "256", "x", "1.5"])
def test_a_status_is_a_number_up_to_255(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path), "--ended", text]) == 2
    assert "wanted an exit status from 0 to 255, got" in capsys.readouterr().err
