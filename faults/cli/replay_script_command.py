"""Run ``replay DIR --script`` of ``python -m faults``: a program of the user's own, again as in a stored run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from faults.cli.options import (
    BOUND,
    CHECK,
    DEADLINE_OF_COMMAND,
    DIR,
    WRITES,
    checked_by,
    only_theirs,
    parser_of,
    startable,
)
from faults.cli.replay_command import ABOUT, STORED, replay
from faults.cli.targets import with_healthy
from faults.judge.rules import Judgement
from faults.ledger.record import Run
from faults.plan.plan import Plan
from faults.script.script import run_script

_OPTIONS = (DIR, DEADLINE_OF_COMMAND, BOUND, CHECK, WRITES)


def main(arguments: Sequence[str], command: list[str]) -> int:
    """Run the program that ``command`` starts under the plan of a stored run, and return the exit status."""
    options = parser_of("replay DIR ... --script my.py", ABOUT, STORED, *_OPTIONS).parse_args(arguments)
    command = startable(only_theirs(command, _OPTIONS))
    results = checked_by(options)
    run = partial(run_script, command, deadline=options.deadline, bound=options.bound, order=True)

    def again(plan: Plan, place: Path, *, trace: bool) -> tuple[Run, Judgement]:
        given = with_healthy(run, shlex.join(command), place, results)
        return run(plan, place, trace=trace, results=given)

    return replay(options.stored, again, options.dir)
