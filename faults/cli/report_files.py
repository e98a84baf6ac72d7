"""Write the verdicts of ``run``, ``sweep`` and ``check`` to files: ``--json`` and ``--junit``."""

from __future__ import annotations

import os
from typing import Any

from faults.cli.options import Option
from faults.judge.rules import Judgement
from faults.ledger.record import Run
from faults.run.json_report import of_run, of_sweep, text_of
from faults.run.junit_report import as_junit
from faults.run.swept import Swept
from reference.cli.options import check_writable
from reference.system.atomic_file import whole

REPORTS: tuple[Option, ...] = (
    ("--json", {"metavar": "FILE", "help": "write the verdicts to a file (docs/faults/report.schema.json)"}),
    ("--junit", {"metavar": "FILE", "help": "write the verdicts to a file, as JUnit's XML"}),
)


def check_reports(options: Any) -> None:
    """Refuse, before anything runs, a file that could not be written. Raises BadInput."""
    for path in (options.json, options.junit):
        if path is not None:
            check_writable(path)


def write_run(options: Any, found: Run, judgement: Judgement, folder: str | os.PathLike[str]) -> None:
    _write(options, of_run(found, judgement, folder))


def write_sweep(options: Any, name: str, swept: Swept) -> None:
    _write(options, of_sweep(name, swept))


def _write(options: Any, report: dict[str, Any]) -> None:
    for path, text in ((options.json, text_of), (options.junit, as_junit)):
        if path is not None:
            with whole(path) as scratch:
                scratch.write_text(text(report), encoding="utf-8")
