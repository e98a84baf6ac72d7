"""Programs that know nothing of this project, each under its plans: the verdicts were written down beforehand."""

from __future__ import annotations

import shlex
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from faults.inject.message.transports import small_files_only
from faults.ledger.record import Run
from faults.plan import Plan
from faults.script.script import run_script
from faults.verdict.checks import Judgement
from tests.programs.verdicts import COMMANDS, TABLE, Expected

PROGRAMS = Path(__file__).parents[1] / "programs"

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The program finds this project only by `run_script`, and leaves its files with the test's."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # `mp.spawn` keeps a file for every process that was killed
    monkeypatch.setenv("TP_SOCKET_IFNAME", "lo")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("PYTHONPATH", raising=False)


def run_under(program: str, plan: str, place: Path, deadline: float) -> tuple[Run, Judgement]:
    """Run a copy of a program under a plan, as the command line does."""
    copy = str(shutil.copy(PROGRAMS / f"{program}.py", place))
    command = [sys.executable, *shlex.split(COMMANDS[program].format(shlex.quote(copy)))]
    return run_script(command, Plan.parse(plan), place / "run", deadline=deadline)


@pytest.mark.parametrize("program", COMMANDS)
def test_a_healthy_program_returns(program: str, tmp_path: Path) -> None:
    run, judgement = run_under(program, "seed=0", tmp_path, deadline=150)
    assert judgement.verdict == "returned", f"{judgement}\n{run.timeline}"


def _first_of_their_kind() -> list[Expected]:
    """Return each program's first plan for each place of a fault."""
    found = {}
    for row in TABLE:
        for fault in Plan.parse(row.plan).faults:
            found.setdefault((row.program, fault.place), row)
    return list(found.values())


DEFAULT_TRANSPORTS = _first_of_their_kind()


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.program}-{row.plan}")
def test_the_verdict_is_the_one_that_was_written_down(row: Expected, tmp_path: Path) -> None:
    """The programs run on torch's default transports under some plans of every kind, otherwise on TCP only.

    The default one spins in a thread of every process, which took half of all the time of these tests on two cores.
    """
    with nullcontext() if row in DEFAULT_TRANSPORTS else small_files_only():
        run, judgement = run_under(row.program, row.plan, tmp_path, row.deadline)
    assert judgement.verdict == row.verdict, f"{row.plan}\n{row.reason}\n{judgement}\n{run.timeline}"
    if row.verdict == "hung":
        assert run.timeline.of("fired"), f"it was only slow\n{judgement}\n{run.timeline}"


def test_each_program_has_ten_plans_of_all_kinds() -> None:
    for program in COMMANDS:
        rows = [row for row in TABLE if row.program == program]
        faults = [fault for row in rows for fault in Plan.parse(row.plan).faults]
        assert len({row.plan for row in rows}) >= 10
        assert {fault.kind for fault in faults} >= {"Delay", "Drop", "Raise", "Duplicate", "Crash", "Pause"}
        assert {fault.place for fault in faults} == {"call", "message", "process"}
