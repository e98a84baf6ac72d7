"""Run ``list`` of ``python -m faults``: print what a healthy run calls and announces, and a plan for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from faults.cli.options import DEADLINE, DEADLINE_OF_COMMAND, DIR
from faults.cli.reports import console, report, stored
from faults.cli.targets import target_of
from faults.ledger.ledger import Timeline
from faults.ledger.moments_seen import Moments, census, moments_seen
from faults.plan.kinds import CALLS, Called
from faults.plan.plan import Plan
from faults.run.sweep import AT, Unhurt, every_way
from reference.system.text import one_line

_ABOUT = "Run {} once without faults, and list what it calls and announces, with a plan for each."


def main(arguments: Sequence[str], program: list[str] | None) -> int:
    """Run the command for a tutorial, or for the program of these words, and return its exit status."""
    target, options = target_of("list", _ABOUT, arguments, program, ((DIR, DEADLINE), (DIR, DEADLINE_OF_COMMAND)))
    with stored(options.dir) as (place, passed):
        found, judgement = target.once(Plan(), place)
        passed.append(judgement.passed)
        if judgement.passed is not True:
            return report(found, judgement, place)
        print_calls(found.name, found.timeline, target.turn(found))
    return 0


def print_calls(name: str, timeline: Timeline, turn: float) -> None:
    """Print the table of a healthy run's calls, the plans, and whether steps are announced. ``turn``: seconds that a
    call waits for its turn."""
    sites = census(timeline)
    console().print(_table(name, sites))
    print('plans, of which each makes one run (`run --plan "PLAN" ...`):')
    for line in _plans(sites, moments_seen(timeline), turn):
        print(one_line(f"  {line}"))
    if not timeline.of("step"):
        print("no step is announced: none of the program's log records has extra={'step': N}")


def _table(name: str, sites: Mapping[str, Called]) -> Table:
    table = Table(title=escape(one_line(f"{name}: calls of a healthy run")))
    for column in ("site", "callers", "executes on"):
        table.add_column(column, overflow="fold")
    for site, calls in sites.items():
        alone = len(calls.callees) == 1
        callees = [callee if alone else f"{callee} ({_counts(calls.to[callee])})" for callee in calls.callees]
        table.add_row(*map(Text, (site, _counts(calls.callers), ", ".join(callees))))
    return table


def _counts(callers: Mapping[str, int]) -> str:
    return ", ".join(f"{role} {count}" for role, count in callers.items())


# The first variant of each kind of calls.
_NAMES = [next(iter(kind.named_variants()))[0] for kind in CALLS]


def _plans(sites: Mapping[str, Called], moments: Sequence[Moments], turn: float) -> Iterator[str]:
    """A plan for each site and each kind that can hit it, as a sweep hits it first. Then one of each other kind for the
    first moment, and a `Crash` for each moment; of moments that differ in their number, for the first."""
    others = every_way({}, turn, AT.keys() - {"Crash at"}, moments[:1])
    for each in (*every_way(sites, turn, _NAMES), *others, *every_way({}, turn, ["Crash at"], moments)):
        if isinstance(each, Unhurt):
            if each.injection == "all":
                yield f"# none for {each.site}: {each.reason}"
        elif each.occurrence == "first":
            yield str(each.fault)
            if each.fault.traits.asked:
                yield f"#   {each.fault.traits.asked}"
        elif each.injection == "Crash at":
            yield f"#   up to at={each.fault.at}"
