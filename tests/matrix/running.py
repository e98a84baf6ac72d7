"""Run a cell of the matrix, and compare what comes of it with what is expected."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from faults.judge.rules import Judgement
from faults.ledger.record import Run
from faults.plan import Plan
from faults.run.runs import run
from faults.run.tutorial import of_tutorial
from reference.verify import quick
from tests.matrix.matrix import Cell
from tests.matrix.verdicts import Expected

# Seconds: far beyond what any cell takes, even on a busy machine.
DEADLINE = 150.0


def run_cell(cell: Cell, folder: Path, **different: Any) -> tuple[Run, Judgement]:
    subject = of_tutorial(quick(cell.tutorial, **{"timeout": cell.expected.timeout, **different}))
    return run(subject, Plan.parse(cell.plan), folder, deadline=DEADLINE)


def mistakes(expected: Expected, found: Run, judgement: Judgement) -> list[str]:
    """Name what differs from the expected run."""
    ends = {role: end.text.removeprefix("raised ") for role, end in found.ends.items()}
    unsaid = [role for role, words in expected.ends.items() if not re.search(words, ends[role], re.DOTALL)]
    wrong = [f"{role}: {ends[role]!r}, wanted {expected.ends[role]!r}" for role in unsaid]
    told = next(check.text for check in judgement.checks if check.name == "result")
    if not re.search(expected.trace, told):
        wrong.append(f"trace: {told!r}, wanted {expected.trace!r}")
    if judgement.verdict != expected.verdict:
        wrong.append(f"{judgement.verdict}, wanted {expected.verdict}")
    return wrong
