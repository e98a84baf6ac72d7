"""Programs that know nothing of this project, each under its plans: the verdicts were written down beforehand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.running import mistakes, run_row
from tests.programs.verdicts import HEALTHY, TABLE, Expected

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("plain")]


def test_a_healthy_program_is_right(tmp_path: Path) -> None:
    """Whose gradients are recorded: under a plan without faults."""
    (row,) = (row for row in HEALTHY if row.program == "parameter_server")
    run, judgement = run_row(row, tmp_path)
    assert not mistakes(row, run, judgement), f"{judgement}\n{run.timeline}"


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.program}-{row.plan}")
def test_the_verdict_is_the_one_that_was_written_down(row: Expected, tmp_path: Path) -> None:
    run, judgement = run_row(row, tmp_path)
    assert not mistakes(row, run, judgement), f"{row.plan}\n{judgement}\n{run.timeline}"
