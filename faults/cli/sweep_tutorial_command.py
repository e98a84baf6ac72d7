"""Run ``sweep NAME`` of ``python -m faults``: every cell of a tutorial, as a table of verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from faults.cli.reports import check_reports, stored
from faults.cli.sweep_runs import OF_SWEEPS, run_cells
from faults.cli.targets import repeated
from faults.cli.tutorial_options import tutorial_of
from faults.judge.rules import exit_status
from faults.ledger.run_files import reserved
from faults.run.runs import Subject, run
from faults.run.sweep import all_passed, record


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit status."""
    about = (
        "Run a tutorial without faults to find its RPC call sites. Then run it once for each site, each kind of fault, "
        "and the first and the last call. For a program of your own: `sweep --help --script`."
    )
    subject, options = tutorial_of("sweep", about, arguments, *OF_SWEEPS)
    check_reports(options)
    return sweep_of(subject, options)


def sweep_of(subject: Subject, options: Any) -> int:
    """Sweep any subject, and return the exit status. ``options``: those of `OF_SWEEPS`, None where not given."""
    with stored(options.dir) as (place, passed), reserved(place):
        healthy = record(partial(run, subject, recorded=True), subject.name, place / "healthy")
        each = repeated(subject, healthy, expected=options.expect_error)
        run_cells(each, healthy, place, options, subject.timeout, passed)
    return exit_status(all_passed(passed))
