"""Run ``list --script`` of ``python -m faults``: the calls of a healthy run of the user's own program."""

from __future__ import annotations

from collections.abc import Sequence

from faults.cli.calls_table import print_calls
from faults.cli.options import DEADLINE_OF_COMMAND, DIR, only_theirs, parser_of, startable
from faults.cli.reports import report, stored
from faults.plan.plan import Plan
from faults.script.script import run_script


def main(arguments: Sequence[str], command: list[str]) -> int:
    """Run the command for the program that ``command`` starts, and return the exit status."""
    about = (
        "Run a program of your own once without faults, and list what it calls and announces, with a plan for each. "
        "All words after --script are the program's command."
    )
    options = parser_of("list ... --script my.py", about, DIR, DEADLINE_OF_COMMAND).parse_args(arguments)
    command = startable(only_theirs(command))
    with stored(options.dir) as (place, passed):
        found, judgement = run_script(command, Plan(), place, deadline=options.deadline)
        passed.append(judgement.passed)
        if judgement.passed is not True:
            return report(found, judgement)
        print_calls(found.name, found.timeline)
    return 0
