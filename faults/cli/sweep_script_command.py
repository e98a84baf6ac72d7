"""Run ``sweep --script`` of ``python -m faults``: every cell of the user's own program, with a check of its results."""

from __future__ import annotations

from collections.abc import Sequence

from faults.cli.checked_script import OF_CHECKED_SCRIPTS, checked
from faults.cli.options import parser_of
from faults.cli.report_files import check_reports
from faults.cli.result_options import results_of
from faults.cli.script_options import only_theirs, startable
from faults.cli.stored_runs import stored
from faults.cli.sweep_options import OF_SWEEPS
from faults.cli.sweep_runs import run_cells
from faults.judge.bound import turn_of
from faults.judge.rules import exit_status
from faults.ledger.run_files import reserved
from faults.run.sweep import all_passed, record

_OPTIONS = (*OF_CHECKED_SCRIPTS, *OF_SWEEPS)


def main(arguments: Sequence[str], command: list[str]) -> int:
    """Run the command for the program that ``command`` starts, and return the exit status."""
    about = (
        "Run a program of your own without faults to find its RPC call sites. Then run it once for each site, each "
        "kind of fault, and the first and the last call, and check its results. "
        "All words after --script are the program's command."
    )
    options = parser_of("sweep ... --script my.py", about, *_OPTIONS).parse_args(arguments)
    results_of(options)  # refused before anything runs
    check_reports(options)
    command = startable(only_theirs(command, _OPTIONS))
    with stored(options.dir) as (place, passed), reserved(place):
        healthy, run = checked(command, options, place, record)
        run_cells(run, healthy, place, options, turn_of(healthy.timeline), passed)
    return exit_status(all_passed(passed))
