"""Run ``replay`` of ``python -m faults``: the plan of a stored run, and a tutorial run again under it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from faults.cli.options import DEADLINE, DIR, Option, folder, parser_of
from faults.cli.reports import report, stored
from faults.judge.bound import turn_of
from faults.judge.facts import Facts, gaps
from faults.judge.rules import Judgement, exit_status
from faults.ledger import record
from faults.ledger.record import Run, is_traced
from faults.plan.plan import Plan
from faults.run.replay import Replay, replay_of
from faults.run.same_run import compare
from reference.cli.options import BadInput
from reference.system.text import one_line

ABOUT = (
    "Make a plan of a stored run: the faults that fired, each at its exact call, and the order of calls if the run has "
    "recorded it (`run --order`). Print it; with a tutorial's name, or --script and a command, run that under it, and "
    "compare both runs. Exit status 0: facts and verdicts are the same; 1: they differ; 3: one verdict is not known."
)
STORED: Option = ("stored", {"type": folder, "metavar": "DIR", "help": "the folder of the run to repeat"})


def main(arguments: Sequence[str]) -> int:
    """Print the plan of a stored run, or run a tutorial under it, and return the exit status."""
    if len(arguments) < 2 or arguments[0].startswith("-"):
        parser = parser_of("replay", ABOUT, STORED)
        print(replay_at(parser.parse_args(arguments).stored)[1].plan)
        return 0
    from faults.cli.tutorial_options import tutorial_of  # here, because they import torch
    from faults.run.runs import run

    subject, options = tutorial_of("replay DIR", ABOUT, arguments[1:], DIR, DEADLINE)

    def again(plan: Plan, place: Path, *, trace: bool) -> tuple[Run, Judgement]:
        return run(subject, plan, place, deadline=options.deadline, recorded=True, order=True, trace=trace)

    return replay(folder(arguments[0]), again, options.dir)


def replay_at(place: str) -> tuple[Run, Replay]:
    """Return a stored run and its replay, and say on the standard error what that does not repeat.

    Raises:
        RecordError: the folder holds no run.
        BadInput: there is nothing to repeat.
    """
    first = record.read(place)
    found = replay_of(first, turn_of(first.timeline))
    for gap in gaps(Facts(first)):
        print(one_line(f"the stored run is not whole: {gap}"), file=sys.stderr)
    for note in found.notes:
        print(one_line(f"not repeated: {note}"), file=sys.stderr)
    if not found.plan.faults:
        wanted = "a fault that fired, or calls of several roles in a recorded order (--order)"
        raise BadInput(f"{place} has nothing to repeat: wanted {wanted}")
    return first, found


def replay(place: str, run: Callable[..., tuple[Run, Judgement]], given: str | None) -> int:
    """Run a program under the plan of a stored run, and return the exit status. ``given``: the folder for the new run.

    Raises:
        RecordError, BadInput: those of `replay_at`; the new run's folder is the stored one's.
    """
    first, found = replay_at(place)
    if given is not None and Path(given).resolve() == Path(place).resolve():
        raise BadInput(f"--dir {given} is the folder of the run to repeat: wanted another one")
    with stored(given) as (folder_of_run, passed):
        again, judgement = run(found.plan, folder_of_run, trace=is_traced(place))
        report(again, judgement)
        same, told = compare(first, again)
        passed.append(same)
        print(one_line(f"replay: {told}"))
    return exit_status(same)
