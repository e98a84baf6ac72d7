"""Print what came of runs, and write it into files and folders."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from faults.cli.options import Option
from faults.judge.rules import Judgement
from faults.ledger import record
from faults.ledger.record import Run
from faults.run.reports import as_junit, of_run, of_sweep, text_of
from faults.run.sweep import Swept
from reference.cli.options import BadInput, check_writable
from reference.system import temporary_folders
from reference.system.files import whole
from reference.system.text import one_line, printable

REPORTS: tuple[Option, ...] = (
    ("--json", {"metavar": "FILE", "help": "write the verdicts to a file (docs/faults/report.schema.json)"}),
    ("--junit", {"metavar": "FILE", "help": "write the verdicts to a file, as JUnit's XML"}),
)


def check_reports(options: Any) -> None:
    """Refuse, before anything runs, a file that could not be written. Raises BadInput."""
    for path in (options.json, options.junit):
        if path is not None:
            check_writable(path)


def write_run(options: Any, found: Run, judgement: Judgement, folder: str | os.PathLike[str]) -> None:
    _write(options, of_run(found, judgement, folder))


def write_sweep(options: Any, name: str, swept: Swept) -> None:
    _write(options, of_sweep(name, swept))


def _write(options: Any, report: dict[str, Any]) -> None:
    for path, text in ((options.json, text_of), (options.junit, as_junit)):
        if path is not None:
            with whole(path) as scratch:
                scratch.write_text(text(report), encoding="utf-8")


def report(found: Run, judgement: Judgement) -> int:
    """Print a run's headline, timeline and checks, and return the exit status. A run that passed has no timeline."""
    print(headline(found))
    if judgement.passed is not True:
        print(_timeline(found))
        for name, place in found.waits.items():
            print(one_line(f"{name} waits at {place}"))
    print(judgement)
    return judgement.status


def headline(found: Run) -> str:
    """The first line of a verdict: what ran, for how long, and how many faults were planned."""
    taken = f" {found.seconds:.1f} s" if found.complete else ""
    head, number = f"{' '.join(found.name.split())}:{taken}", len(found.plan.faults)
    if number == 0:
        return one_line(f"{head} healthy: no faults planned")
    return one_line(f"{head} under {number} {'fault' if number == 1 else 'faults'}: {found.plan}")


def _timeline(found: Run) -> str:
    events = list(map(str, found.timeline.events))
    last = events[-40:]
    head = f"the last {len(last)} of {len(events)} events:" if events else "no events"
    return "\n".join([head, *last])


def console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 160)


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
