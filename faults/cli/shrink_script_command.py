"""Run ``shrink --script`` of ``python -m faults``: make a plan smaller under which the user's own program fails."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from faults.cli.options import only_theirs, parser_of, results_of, startable
from faults.cli.reports import check_reports, stored
from faults.cli.shrink_runs import OF_SHRINKS, failing_plan, shrink_plan
from faults.cli.targets import OF_CHECKED_SCRIPTS, checked
from faults.ledger.run_files import reserved
from faults.plan.plan import PlanError
from faults.run.sweep import healthy

_OPTIONS = (*OF_CHECKED_SCRIPTS, *OF_SHRINKS)


def main(arguments: Sequence[str], command: list[str]) -> int:
    """Run the command for the program that ``command`` starts, and return the exit status."""
    about = (
        "Run a program of your own under a plan that makes it fail, then under smaller plans, as long as it fails in "
        "the same way, and print the smallest one. All words after --script are the program's command."
    )
    options = parser_of("shrink ... --script my.py", about, *_OPTIONS).parse_args(arguments)
    results_of(options)  # refused before anything runs
    plan = failing_plan(options)
    check_reports(options)
    command = startable(only_theirs(command, _OPTIONS))
    if plan.at("network"):
        raise PlanError("faults of a network need roles that are started by reference.world.launch, got a script")
    with stored(options.dir) as (place, passed), reserved(place):
        _, run = checked(command, options, place, healthy, trace=options.leaks == "trace")
        return shrink_plan(run, shlex.join(command), plan, place, options, passed)
