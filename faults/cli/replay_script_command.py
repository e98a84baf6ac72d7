"""Run ``replay DIR --script`` of ``python -m faults``: a program of the user's own, again as in a stored run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from faults.cli.options import DIR, parser_of
from faults.cli.replay_command import ABOUT, STORED, replay
from faults.cli.result_options import CHECK, WRITES, checked_by
from faults.cli.script_options import BOUND, DEADLINE_OF_COMMAND, only_theirs, startable
from faults.script.script import run_script

_OPTIONS = (DIR, DEADLINE_OF_COMMAND, BOUND, CHECK, WRITES)


def main(arguments: Sequence[str], command: list[str]) -> int:
    """Run the program that ``command`` starts under the plan of a stored run, and return the exit status."""
    options = parser_of("replay DIR ... --script my.py", ABOUT, STORED, *_OPTIONS).parse_args(arguments)
    command = startable(only_theirs(command, _OPTIONS))
    how = {"deadline": options.deadline, "bound": options.bound, "results": checked_by(options), "order": True}
    return replay(options.stored, partial(run_script, command, **how), options.dir)
