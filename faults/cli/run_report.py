"""Print a run's headline, timeline and checks."""

from __future__ import annotations

import sys

from rich.console import Console

from faults.judge.rules import Judgement
from faults.ledger.record import Run
from reference.system.printable import one_line


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
