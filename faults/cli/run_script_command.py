"""Run ``run --script`` of ``python -m faults``: a program of the user's own once, under a plan or healthy."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from faults.cli.options import OF_RESULTS, OF_SCRIPTS, only_theirs, parser_of, plan_of, results_of, startable
from faults.cli.reports import REPORTS, check_reports, report, stored, write_run
from faults.cli.targets import with_healthy
from faults.ledger.run_files import RESULTS
from faults.script.results import ERRORS, OUTPUT, Results
from faults.script.script import run_script
from reference.cli.options import BadInput


def main(arguments: Sequence[str], command: list[str]) -> int:
    """Run the command for the program that ``command`` starts, and return the exit status."""
    about = (
        "Run a program of your own once, under a plan or healthy, and judge the run. "
        "All words after --script are the program's command."
    )
    own = (*OF_SCRIPTS, *OF_RESULTS, *REPORTS)
    options = parser_of("run ... --script my.py", about, *own).parse_args(arguments)
    command = startable(only_theirs(command, own))
    plan, results = plan_of(options), results_of(options)
    if results.compares and not plan.faults:
        raise BadInput("--same-output and --same-file compare with a healthy run: wanted --plan, got --healthy")
    check_reports(options)
    how = {"trace": options.leaks == "trace", "deadline": options.deadline, "bound": options.bound}
    run: Any = partial(run_script, command, **how)
    with stored(options.dir) as (place, passed):
        if plan.faults:
            given = with_healthy(run, shlex.join(command), place, results)
        else:
            given = results if results.wanted else None
        found, judgement = run(plan, place, results=given, expected=options.expect_error)
        _print_streams(place, given)
        passed.append(judgement.passed)
        write_run(options, found, judgement, place)
        return report(found, judgement)


def _print_streams(place: Path, results: Results | None) -> None:
    """Print what the program has printed, if that went into files."""
    if results is not None:
        for name, stream in ((OUTPUT, sys.stdout), (ERRORS, sys.stderr)):
            stream.write((place / RESULTS / name).read_text(errors="replace"))
