"""Run ``sweep --script`` of ``python -m faults``: every cell of the user's own program, with a check of its results."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from faults.cli.options import parser_of
from faults.cli.report_files import check_reports
from faults.cli.result_options import OF_RESULTS, results_of
from faults.cli.script_options import BOUND, DEADLINE_OF_SWEEP, only_theirs, startable
from faults.cli.stored_runs import stored
from faults.cli.sweep_options import OF_SWEEPS
from faults.cli.sweep_runs import run_cells
from faults.ledger.record import Run
from faults.plan.plan import Plan
from faults.run.sweep import SweepFailed, all_passed, record
from faults.script.results import Results
from faults.script.script import run_script
from faults.verdict.checks import exit_status
from faults.verdict.time_bounds import timeout_of

# Each run may take this many times as long as the healthy run, and at least so many seconds.
TIMES, SECONDS = 10.0, 60.0

# The longest time that a call waits for its turn (seconds), if half of the program's own timeout is longer.
_TURN = 10.0

_OPTIONS = (*OF_RESULTS, *OF_SWEEPS, DEADLINE_OF_SWEEP, BOUND)


def main(arguments: Sequence[str], command: list[str]) -> int:
    """Run the command for the program that ``command`` starts, and return the exit status."""
    about = (
        "Run a program of your own without faults to find its RPC call sites. Then run it once for each site, each "
        "kind of fault, and the first and the last call, and check its results. "
        "All words after --script are the program's command."
    )
    options = parser_of("sweep ... --script my.py", about, *_OPTIONS).parse_args(arguments)
    results = results_of(options)
    check_reports(options)
    command = startable(only_theirs(command, _OPTIONS))
    with stored(options.dir) as (place, passed):
        run = partial(run_script, command, deadline=options.deadline, bound=options.bound)
        healthy = _healthy(run, shlex.join(command), place, results)
        patience = max(SECONDS, TIMES * healthy.seconds)
        _tell(healthy, results, patience if options.deadline is None else options.deadline)
        each = partial(run, patience=patience, results=results.of(place / "healthy"))
        timeout = timeout_of(healthy.timeline)
        run_cells(each, healthy, place, options, min(timeout / 2 or _TURN, _TURN), passed)
    return exit_status(all_passed(passed))


def _healthy(run: Any, name: str, place: Path, results: Results) -> Run:
    """Run the program without faults; twice if its results are compared, because they have to be the same then.

    Raises:
        SweepFailed: it fails, calls nothing, or its results differ from run to run.
    """
    healthy = record(partial(run, results=results), name, place / "healthy")
    if results.compares:
        again, judgement = run(Plan(), place / "healthy-again", results=results.of(place / "healthy"))
        if judgement.verdict != "equal":
            why = again.difference if again.trace == "wrong" else judgement.verdict
            raise SweepFailed(f"two healthy runs of {name} differ: {why} (--ignore leaves out what changes)")
    return healthy


def _tell(healthy: Run, results: Results, deadline: float) -> None:
    said = f"the healthy run took {healthy.seconds:.1f} s; a run is overdue after {deadline:.0f} s"
    print(f"{said}, or later if its own timeouts are longer", file=sys.stderr)
    if not (results.command or results.compares):
        wanted = "--check, --same-output or --same-file"
        print(f"no result is checked, so a run that returns passes: wanted {wanted}", file=sys.stderr)
