"""Run ``run``, ``prepare`` and ``check`` of ``python -m faults``; each returns its exit status."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from faults.cli.options import (
    DEADLINE,
    DIR,
    HEALTHY,
    LEAKS,
    OF_SCRIPTS,
    PLAN,
    folder,
    only_theirs,
    parser_of,
    plan_of,
    script_of,
    tutorial_of,
)
from faults.ledger import record
from faults.ledger.record import Run
from faults.plan.plan import Plan
from faults.run.launch_scope import prepared
from faults.run.runs import run
from faults.run.subject import Subject
from faults.script.autostart import VARIABLE
from faults.script.script import run_script
from faults.verdict.checks import Judgement, judge
from reference.cli.options import BadInput
from reference.system import temporary_folders
from reference.system.printable import one_line, printable, shown


@contextmanager
def stored(given: str | None) -> Iterator[tuple[Path, list[bool | None]]]:
    """Yield the folder for runs, and a list to which the caller appends whether each run passed.

    Without ``given`` the folder is temporary. It is kept, and its name printed, if a run has not passed, or if the
    command fails after it has recorded a run.
    """
    place = Path(given) if given is not None else temporary_folders.make("faults-")
    passed: list[bool | None] = []
    try:
        yield place, passed
    except Exception as error:
        if not isinstance(error, BadInput) and any(place.rglob(record.RUN)):
            passed.append(None)
        raise
    finally:
        if given is None and all(passed):
            temporary_folders.remove(place)
        elif given is None:
            temporary_folders.keep(place)
            print(f"stored in {printable(str(place))}", file=sys.stderr)


def run_one(arguments: Sequence[str]) -> int:
    """Run a tutorial, or a user's own command, once."""
    script = script_of(arguments)
    if script is not None:
        return _run_script(*script)
    about = (
        "Run a tutorial once, under a plan or healthy, and judge the run. "
        "For a program of your own: `run --help --script`."
    )
    subject, options = tutorial_of("run", about, arguments, PLAN, HEALTHY, DIR, DEADLINE, LEAKS)
    return run_of(subject, plan_of(options), options)


def run_of(subject: Subject, plan: Plan, options: Any) -> int:
    """Run any subject, and return the exit status. ``options``: `dir` and `deadline`, None where not given; `leaks`."""
    with stored(options.dir) as (place, passed):
        trace = options.leaks == "trace"
        found, judgement = run(subject, plan, place, trace=trace, deadline=options.deadline, recorded=True)
        passed.append(judgement.passed)
        return report(found, judgement)


def _run_script(arguments: Sequence[str], command: list[str]) -> int:
    about = (
        "Run a program of your own once, under a plan or healthy, and judge the run. "
        "All words after --script are the program's command."
    )
    options = parser_of("run ... --script my.py", about, *OF_SCRIPTS).parse_args(arguments)
    command = startable(only_theirs(command))
    plan = plan_of(options)
    with stored(options.dir) as (place, passed):
        how = {"trace": options.leaks == "trace"}
        found, judgement = run_script(command, plan, place, **how, deadline=options.deadline, bound=options.bound)
        passed.append(judgement.passed)
        return report(found, judgement)


def startable(command: list[str]) -> list[str]:
    """Put the interpreter before a Python file. Raises BadInput: there is no such file, or it is a folder."""
    name = command[0]
    if Path(name).is_dir() and ("/" in name or shutil.which(name) is None):
        raise BadInput(f"--script {name} is a folder: wanted a Python file or a command")
    if not name.endswith(".py"):
        return command
    if not Path(name).is_file():
        raise BadInput(f"--script {name}: no such file")
    return [sys.executable, *command]


def report(found: Run, judgement: Judgement) -> int:
    """Print a run's headline, timeline and checks, and return the exit status. A run that passed has no timeline."""
    print(headline(found))
    if judgement.passed is not True:
        print(_timeline(found))
    print(judgement)
    return judgement.status


def headline(found: Run) -> str:
    """The first line of a verdict: what ran, for how long, and how many faults were planned."""
    taken = f" {found.seconds:.1f} s" if found.complete else ""
    head, number = f"{' '.join(found.name.split())}:{taken}", len(found.plan.faults)
    if number == 0:
        return one_line(f"{head} healthy: no faults planned")
    return one_line(f"{head} under {number} {'fault' if number == 1 else 'faults'}: {found.plan}")


def _timeline(found: Run, last: int = 40) -> str:
    events = list(map(str, found.timeline.events))
    head = f"the last {min(last, len(events))} of {len(events)} events:" if events else "no events"
    return "\n".join([head, *events[-last:]])


def check(arguments: Sequence[str]) -> int:
    """Judge a stored run again, by its folder alone."""
    parser = parser_of("check", "Judge a stored run again, by its folder alone.")
    parser.add_argument("dir", type=folder, metavar="DIR", help="the run's folder")
    found = record.read(parser.parse_args(arguments).dir)
    try:
        judgement = judge(found)
    except Exception as error:  # a file that no run wrote may break a check in any way
        why = f"it holds what no run writes ({type(error).__name__}: {error})"
        raise record.RecordError(f"{found.name} cannot be judged: {why}") from error
    return report(found, judgement)


def prepare(arguments: Sequence[str]) -> int:
    """Prepare a folder for programs that something else starts, such as torchrun on several machines."""
    about = (
        "Prepare a folder with a plan, or with --healthy one that only records calls. "
        "Programs use it if they are started with FAULTS_RUN=DIR."
    )
    parser = parser_of("prepare", about, PLAN, HEALTHY, LEAKS)
    parser.add_argument("dir", type=folder, metavar="DIR", help="the run's folder; files of an earlier run are removed")
    options = parser.parse_args(arguments)
    if not str(Path(options.dir).absolute()).isprintable():
        raise BadInput(f"prepare {shown(options.dir)}: wanted a folder whose name can be printed")
    place = prepared(plan_of(options), options.dir, trace=options.leaks == "trace")
    print(f"{VARIABLE}={place}")
    return 0


def console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 160)
