"""Run ``sweep --script`` of ``python -m faults``: every cell of the user's own program, with a check of its results."""

from __future__ import annotations

from collections.abc import Sequence

from faults.cli.options import only_theirs, parser_of, results_of, startable
from faults.cli.reports import check_reports, stored
from faults.cli.sweep_runs import OF_SWEEPS, run_cells
from faults.cli.targets import OF_CHECKED_SCRIPTS, checked
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
