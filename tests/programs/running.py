"""Run a program under one of its plans, and compare what comes of it with what was written down."""

from __future__ import annotations

import shlex
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path

from faults.inject.messages import small_files_only
from faults.judge.rules import Judgement
from faults.ledger.record import Run
from faults.plan import Plan
from faults.script.results import Results
from faults.script.script import run_script
from tests.programs.verdicts import CHECKS, COMMANDS, TABLE, Expected

PROGRAMS = Path(__file__).parent


def run_under(program: str, plan: str, place: Path, deadline: float) -> tuple[Run, Judgement]:
    """Run a copy of a program under a plan, as the command line does. The run's folder is ``place / "run"``."""
    results = Results(command=CHECKS.get(program, ""))
    copy = str(shutil.copy(PROGRAMS / f"{program}.py", place))
    command = [sys.executable, *shlex.split(COMMANDS[program].format(shlex.quote(copy)))]
    return run_script(command, Plan.parse(plan), place / "run", deadline=deadline, results=results)


def _first_of_their_kind() -> list[Expected]:
    """Return each program's first plan for each place of a fault."""
    found: dict[tuple[str, str], Expected] = {}
    for row in TABLE:
        for fault in Plan.parse(row.plan).faults:
            found.setdefault((row.program, fault.place), row)
    return list(found.values())


DEFAULT_TRANSPORTS = _first_of_their_kind()


def run_row(row: Expected, place: Path) -> tuple[Run, Judgement]:
    """Run a row of the table.

    The programs run on torch's default transports under some plans of every kind, otherwise on TCP only. The default
    one spins in a thread of every process, which took half of all the time of these tests on two cores.
    """
    with nullcontext() if row in DEFAULT_TRANSPORTS else small_files_only():
        return run_under(row.program, row.plan, place, row.deadline)


def mistakes(row: Expected, run: Run, judgement: Judgement) -> list[str]:
    """Name what differs from what was written down."""
    found = [] if judgement.verdict == row.verdict else [f"{judgement.verdict}, wanted {row.verdict}"]
    slow = judgement.verdict == "hung" and not run.timeline.of("fired")
    return [*found, *(["it was only slow"] if slow else [])]
