"""Run ``check`` of ``python -m faults``: judge a stored run again, or print the faults that fired in it as a plan."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from faults.cli.options import EXPECT, Option, folder, parser_of
from faults.cli.reports import REPORTS, check_reports, report, write_run
from faults.judge.facts import Facts
from faults.judge.gaps import gaps
from faults.judge.proof import firings
from faults.judge.rules import judge
from faults.ledger import record
from faults.ledger.ledger import Event
from faults.ledger.record import Run
from faults.plan.plan import Fault, Plan
from faults.script.script import record_end
from reference.cli.options import BadInput
from reference.system.text import one_line


def status(text: str) -> int:
    """Convert ``--ended``: an exit status (argparse type)."""
    if not text.isdecimal() or int(text) > 255:
        raise argparse.ArgumentTypeError(f"wanted an exit status from 0 to 255, got {text!r}")
    return int(text)


_ENDED: Option = (
    "--ended",
    {
        "type": status,
        "metavar": "STATUS",
        "help": "record in the folder that all programs, started with FAULTS_RUN, have ended, and their command with "
        "this exit status",
    },
)
_AS_PLAN: Option = (
    "--as-plan",
    {
        "action": "store_true",
        "help": "print no verdict, but the faults that fired, each at exactly the calls at which it did, as a plan "
        "that `run --plan` takes",
    },
)


def main(arguments: Sequence[str]) -> int:
    """Judge a stored run again, by its folder alone."""
    about = "Judge a stored run again, by its folder alone, or print the faults that fired in it as a plan."
    parser = parser_of("check", about, _ENDED, _AS_PLAN, EXPECT, *REPORTS)
    parser.add_argument("dir", type=folder, metavar="DIR", help="the run's folder")
    options = parser.parse_args(arguments)
    if options.as_plan:
        return _print_plan(options)
    check_reports(options)
    if options.ended is not None:
        record_end(options.dir, options.ended)
    found = record.read(options.dir)
    with as_runs_write(found):
        judgement = judge(found, expected=options.expect_error)
    status = report(found, judgement, options.dir)
    write_run(options, found, judgement, options.dir)
    return status


@contextmanager
def as_runs_write(found: Run) -> Iterator[None]:
    """Raise RecordError for any error in the block but of the system: a file that no run wrote may break a check in any
    way."""
    try:
        yield
    except OSError:  # such as a disk that is full
        raise
    except Exception as error:
        why = f"it holds what no run writes ({type(error).__name__}: {error})"
        raise record.RecordError(f"{found.name} cannot be judged: {why}") from error


def _print_plan(options: Any) -> int:
    """Print the plan of what fired, a fault a line, after comments on what it lacks.

    Raises:
        BadInput: an option is given that only a verdict needs; or nothing fired.
    """
    others = {"--ended": options.ended is not None, "--expect-error": options.expect_error}
    written = {"--json": options.json, "--junit": options.junit, "--html": options.html}
    for name, is_given in {**others, **written}.items():
        if is_given:
            raise BadInput(f"--as-plan prints no verdict: wanted it without {name}")
    found = record.read(options.dir)
    with as_runs_write(found):
        plan, missing = plan_of_fired(found), list(_missing(found))
    if not plan.faults:
        raise BadInput(f"{options.dir}: no fault fired, so there is no plan of what fired")
    for each in missing:
        print(one_line(f"# {each}"))
    print("\n".join([*([f"seed={plan.seed}"] if plan.seed else []), *map(str, plan.faults)]))
    return 0


def plan_of_fired(run: Run) -> Plan:
    """Return the faults of a run that fired, those of calls at exactly the calls at which they did."""
    return Plan(tuple(each for number in range(len(run.plan.faults)) for each in _fired(run, number)), run.plan.seed)


def _fired(run: Run, number: int) -> Iterator[Fault]:
    """Yield a fault of the plan as it fired: one of calls once for each call; others as they are, because they name
    their moment. Whether one of a message hit any is not recorded, so it stays."""
    fault = run.plan.faults[number]
    events = [event for event in firings(run) if event.details["fault"] == number]
    if fault.place == "call":
        yield from dict.fromkeys(_at_call(run, fault, event) for event in events)
    elif events or fault.place == "message":
        yield fault


def _at_call(run: Run, fault: Fault, fired: Event) -> Fault:
    """Return the fault at the call at which it fired."""
    nth, caller = fired.details["nth" if fault.to is None else "nth_to"], fired.details["caller"]
    lives = [each.time for each in run.timeline.of("start") if each.role == caller]
    life = str(max(1, sum(begun <= fired.time for begun in lives))) if len(lives) > 1 or fault.lives else None
    return replace(fault, **fault.traits.as_fired(fault, nth, caller, life))


def _missing(run: Run) -> Iterator[str]:
    """Yield what the plan of what fired lacks, and why."""
    yield from (f"the run's record is not whole: {gap}" for gap in gaps(Facts(run)))
    fired = {event.details["fault"] for event in firings(run)}
    for number, fault in enumerate(run.plan.faults):
        if number not in fired and fault.place != "message":
            yield f"did not fire: {fault}"
