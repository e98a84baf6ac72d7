"""``python -m faults``: run a program under a plan, sweep it, judge a stored run.

Exit status 0: pass; 1: fail; 2: unknown, or bad input.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from faults import record
from faults.autostart import VARIABLE
from faults.checks import Judgement, judge
from faults.countdown import countdown
from faults.network import NetworkError
from faults.plan import Plan, PlanError
from faults.record import Run
from faults.refusal import shown
from faults.runs import run
from faults.scope import prepared
from faults.script import run_script
from faults.subject import Subject, of_tutorial
from faults.sweep import HURTS, ORDER, Cell, Result, SweepFailed, cells, sweep
from faults.sweep import record as record_calls
from reference.case import CaseError
from reference.cli import BadInput, Parser, add_case_options, known
from reference.outcome import WorldError
from reference.quick import quick

# Seconds that a tutorial's roles wait for each other here, where most runs lose somebody.
TIMEOUT = 3.0

_USAGE = """usage: python -m faults COMMAND

  list NAME                        the calls of a tutorial's healthy run: what can be hurt
  run NAME --plan PLAN [options]   one run of a tutorial under a plan, judged
  run --plan PLAN --script my.py   the same for a program of your own, unchanged
  sweep NAME [options]             one run for every call site, kind, and first and last occurrence
  prepare DIR --plan PLAN          a folder for FAULTS_RUN=DIR torchrun ... my.py
  check DIR                        judge a stored run again

PLAN is text or a file: docs/faults.md. `COMMAND --help` has the options. Exit status 0: pass; 1: fail; 2: unknown."""


def main(arguments: Sequence[str]) -> int:
    """The exit status. No process is started on bad input."""
    commands = {"list": show_sites, "run": run_one, "sweep": run_sweep, "prepare": prepare, "check": check}
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        return 0
    try:
        if arguments[0] not in commands:
            raise BadInput(f"unknown command {arguments[0]!r}, wanted one of {', '.join(commands)}")
        return commands[arguments[0]](arguments[1:])
    except (BadInput, PlanError, CaseError, WorldError, NetworkError, record.RecordError, SweepFailed) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


_Option = tuple[str, dict[str, Any]]

# The longest time that may be asked for (seconds).
_LONGEST = 1e6


def seconds(text: str) -> float:
    """The type of options that are times."""
    with suppress(ValueError):
        if 0 < float(text) <= _LONGEST:  # nor NaN
            return float(text)
    raise argparse.ArgumentTypeError(f"wanted seconds, above 0 and at most {_LONGEST:.0f}, got {text!r}")


def kinds(text: str) -> list[str]:
    """The type of ``--kinds``: names of the table, or their first words."""
    known_kinds = dict.fromkeys(each for hurt in (*HURTS, ORDER) for each in (hurt, hurt.split()[0]))
    chosen = [kind.strip() for kind in text.split(",")]
    for kind in chosen:
        if kind not in known_kinds:
            raise argparse.ArgumentTypeError(f"unknown kind {kind!r}, wanted some of {', '.join(known_kinds)}")
    return chosen


def _parser(command: str, about: str) -> Parser:
    return Parser(prog=f"python -m faults {command}", description=about)


def _tutorial(command: str, about: str, arguments: Sequence[str], *more: _Option) -> tuple[Subject, Any]:
    """The tutorial that is named first, with its case's options, and the command's own options."""
    if not arguments or arguments[0].startswith("-"):
        if arguments and arguments[0] in ("-h", "--help"):
            print(
                f"usage: python -m faults {command} NAME [options]; `{command} NAME --help` lists a tutorial's options"
            )
            raise SystemExit(0)
        raise BadInput(f"{command} what? wanted a tutorial's name first, got {' '.join(arguments) or 'nothing'}")
    name = known(arguments[0])
    parser = _parser(f"{command} {name}", f"{about} Sizes are small unless given; --timeout is {TIMEOUT:g} then.")
    own = {parser.add_argument(option, **how).dest for option, how in more}
    add_case_options(parser, name)
    options = vars(parser.parse_args(arguments[1:]))
    chosen = argparse.Namespace(**{key: options.pop(key) for key in own})
    given = {key: value for key, value in options.items() if value is not None}
    return of_tutorial(quick(name, **{"timeout": TIMEOUT, **given})), chosen


_PLAN: _Option = (
    "--plan",
    {"metavar": "PLAN", "default": "seed=0", "help": "the plan as text, or a file (default: none)"},
)
_DEADLINE: _Option = (
    "--deadline",
    {"type": seconds, "metavar": "X", "help": "seconds until an overdue role is ended (default: by --timeout)"},
)
_DIR: _Option = ("--dir", {"metavar": "DIR", "help": "where runs are stored (default: nowhere, unless one fails)"})


@contextmanager
def _stored(given: str | None) -> Iterator[tuple[Path, list[bool | None]]]:
    """Where to store runs, and a list for what they came to: a temporary folder goes if all have passed."""
    place = Path(given) if given else Path(tempfile.mkdtemp(prefix="faults-"))
    passed: list[bool | None] = []
    try:
        yield place, passed
    finally:
        if not given and all(passed):
            shutil.rmtree(place, ignore_errors=True)
        elif not given:
            print(f"stored in {place}", file=sys.stderr)


def read_plan(text: str) -> Plan:
    """A plan from the text itself, or from a file of that name. Raises PlanError."""
    if ("=" in text or text.lstrip().startswith("{")) and not _exists(text):
        return Plan.parse(text)
    try:
        return Plan.parse(Path(text).read_text())
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise PlanError(f"{shown(text)} is neither a plan nor a file that holds one: {why}") from error


def _exists(path: str) -> bool:
    with suppress(OSError):  # a plan may be longer than a name
        return Path(path).exists()
    return False


def show_sites(arguments: Sequence[str]) -> int:
    """What `sweep` would hurt."""
    subject, options = _tutorial("list", "The calls of a healthy run.", arguments, _DIR)
    table = Table(title=f"{subject.name}: calls of a healthy run")
    for column in ("site", "callers", "executes on"):
        table.add_column(column, overflow="fold")
    with _stored(options.dir) as (place, _):
        for site, calls in record_calls(subject, place)[0].items():
            callers = ", ".join(f"{role} {count}" for role, count in calls.callers.items())
            table.add_row(site, callers, ", ".join(calls.callees))
    _console().print(table)
    return 0


def run_one(arguments: Sequence[str]) -> int:
    """One run of a tutorial, or of a command of the user's own."""
    if "--script" in arguments:
        return _run_script(arguments)
    subject, options = _tutorial("run", "One run under a plan, judged.", arguments, _PLAN, _DIR, _DEADLINE)
    plan = read_plan(options.plan)
    with _stored(options.dir) as (place, passed):
        found, judgement = run(subject, plan, place, deadline=options.deadline)
        passed.append(judgement.passed)
        return _report(found, judgement)


def _run_script(arguments: Sequence[str]) -> int:
    split = list(arguments).index("--script")
    parser = _parser("run --script", "A program of your own under a plan; what follows --script is its command.")
    parser.add_argument(_PLAN[0], **_PLAN[1])
    parser.add_argument(_DIR[0], **_DIR[1])
    limit = "seconds until the command is ended (default: 300, or beyond the bound)"
    parser.add_argument("--deadline", type=seconds, metavar="X", help=limit)
    within = "seconds within which it must end after the first fault, if it fails (default: by its own timeouts)"
    parser.add_argument("--bound", type=seconds, metavar="X", help=within)
    options, command = parser.parse_args(arguments[:split]), list(arguments[split + 1 :])
    if not command:
        raise BadInput("--script what? wanted a Python file or a command, such as torchrun, and its arguments")
    if command[0].endswith(".py"):
        if not Path(command[0]).is_file():
            raise BadInput(f"--script {command[0]}: no such file")
        command = [sys.executable, *command]
    plan = read_plan(options.plan)
    with _stored(options.dir) as (place, passed):
        found, judgement = run_script(command, plan, place, deadline=options.deadline, bound=options.bound)
        passed.append(judgement.passed)
        return _report(found, judgement)


def _report(found: Run, judgement: Judgement) -> int:
    seconds_taken = f"{found.seconds:.1f} s " if found.complete else ""
    print(f"{found.name}: {seconds_taken}under the plan {found.plan}")
    if judgement.passed is not True:
        print(_timeline(found))
    print(judgement)
    return judgement.status


def _timeline(found: Run, last: int = 40) -> str:
    events = list(map(str, found.timeline.events))
    return "\n".join([f"the last {min(last, len(events))} of {len(events)} events:", *events[-last:]])


def check(arguments: Sequence[str]) -> int:
    """Judge a stored run again, by its folder alone."""
    parser = _parser("check", "Judge a stored run again.")
    parser.add_argument("dir", metavar="DIR", help="a run's folder")
    found = record.read(parser.parse_args(arguments).dir)
    try:
        judgement = judge(found)
    except (TypeError, ValueError, LookupError) as error:
        why = f"it holds what no run writes ({type(error).__name__}: {error})"
        raise record.RecordError(f"{found.name} cannot be judged: {why}") from error
    return _report(found, judgement)


def prepare(arguments: Sequence[str]) -> int:
    """A folder for programs that are started by something else, torchrun on several machines for instance."""
    parser = _parser("prepare", "A folder with a plan, for programs that find it by FAULTS_RUN=DIR.")
    parser.add_argument("dir", metavar="DIR", help="the run's folder; what an earlier run left in it goes")
    parser.add_argument(_PLAN[0], **_PLAN[1])
    options = parser.parse_args(arguments)
    place = prepared(read_plan(options.plan), options.dir)
    print(f"{VARIABLE}={place}")
    return 0


_BUDGET = ("--budget", {"type": seconds, "metavar": "X", "help": "seconds; no cell begins later (default: no limit)"})
_SITES = ("--sites", {"metavar": "TEXT", "help": "only sites that contain this (default: all)"})
_HURTS = (
    "--kinds",
    {"type": kinds, "metavar": "KIND,...", "help": "only these kinds, as the table names them, or their first words"},
)


def run_sweep(arguments: Sequence[str]) -> int:
    """Every cell of a tutorial, as a table of verdicts."""
    about = "Hurt each call of a healthy run once in every way, its first and its last occurrence."
    subject, options = _tutorial("sweep", about, arguments, _BUDGET, _SITES, _HURTS, _DIR)
    return sweep_of(subject, options)


def sweep_of(subject: Subject, options: Any) -> int:
    """The exit status. Any subject's; ``options``: `dir`, `sites`, `kinds`, `budget`, None where not given."""
    with _stored(options.dir) as (place, passed):
        sites, healthy = record_calls(subject, place / "healthy")
        todo = [cell for cell in cells(sites, subject.timeout) if _wanted(cell, options)]
        if not todo:
            raise BadInput(f"nothing to sweep with --sites {options.sites} --kinds {options.kinds}: see `list`")
        results: list[Result] = []
        try:
            with countdown(subject.name, len(todo), options.budget) as tick:
                for result in sweep(subject, todo, place, healthy=healthy, budget=options.budget, on_start=tick):
                    results.append(result)
                    passed.append(result.passed)
        finally:  # also when it is interrupted
            _print_sweep(subject, results, len(todo))
    return 1 if False in passed else 2 if None in passed else 0


def _wanted(cell: Cell, options: Any) -> bool:
    fits = options.kinds is None or cell.hurt in options.kinds or cell.hurt.split()[0] in options.kinds
    return fits and (options.sites or "") in cell.site


def _print_sweep(subject: Subject, results: Sequence[Result], wanted: int) -> None:
    table = Table(title=f"{subject.name}: {len(results)} of {wanted} cells")
    for column in ("site", "hurt", "call", "seconds", "verdict", "what was seen"):
        table.add_column(column, overflow="fold", justify="right" if column == "seconds" else "left")
    for result in results:
        cell = result.cell
        call = f"{cell.occurrence}: {cell.caller}"
        table.add_row(
            cell.site, cell.hurt, call, f"{result.seconds:.1f}", result.judgement.verdict, result.detail[:300]
        )
    _console().print(table)
    counts = Counter(_verdict(result) for result in results)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    if len(results) < wanted:
        print(f"{wanted - len(results)} of {wanted} cells were not run")


def _verdict(result: Result) -> str:
    verdict = result.judgement.verdict
    return f"needless {verdict[6:]}" if result.passed is False and verdict == "clean error" else verdict


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 160)
