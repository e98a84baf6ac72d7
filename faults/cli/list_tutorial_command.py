"""Run ``list NAME`` of ``python -m faults``: the calls of a tutorial's healthy run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from faults.cli.calls_table import print_calls
from faults.cli.options import DIR
from faults.cli.reports import stored
from faults.cli.tutorial_options import tutorial_of
from faults.run.runs import run
from faults.run.sweep import record


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit status."""
    about = "List the RPC calls of a healthy run. For a program of your own: `list --help --script`."
    subject, options = tutorial_of("list", about, arguments, DIR)
    with stored(options.dir) as (place, passed):
        found = record(partial(run, subject, recorded=True), subject.name, place)
        passed.append(True)
        print_calls(found.name, found.timeline)
    return 0
