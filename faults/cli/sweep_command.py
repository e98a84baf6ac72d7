"""Run ``sweep`` of ``python -m faults``: the chosen cells of a target, then pairs of them, as tables of verdicts."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from zlib import crc32

from rich.table import Table

from faults.cli.options import BOUND, BUDGET, DEADLINE_OF_SWEEP, DIR, EXPECT, OF_RESULTS, Option
from faults.cli.progress_bar import countdown
from faults.cli.reports import REPORTS, check_reports, console, stored, write_sweep
from faults.cli.targets import Target, target_of
from faults.judge.rules import exit_status
from faults.ledger.moments_seen import census
from faults.ledger.record import Run
from faults.ledger.run_files import remove_numbered, reserved
from faults.plan.kinds import CALLS
from faults.run.sweep import (
    VARIANTS,
    Cell,
    Cells,
    Result,
    Runner,
    SweepFailed,
    Swept,
    Unhurt,
    all_passed,
    every_way,
    pairs_of,
    sweep,
)
from reference.cli.options import BadInput
from reference.system.text import one_line

# The kinds that are swept only if they are named, each with the reason.
_ASKED = [f"{kind.name!r}, which {kind.asked}" for kind in CALLS if kind.asked]


def kinds(text: str) -> list[str]:
    """Convert ``--kinds``: names from the table of verdicts, or the first words of such names (argparse type)."""
    known_kinds = dict.fromkeys(each for name in VARIANTS for each in (name, name.split()[0]))
    chosen = [kind.strip() for kind in text.split(",")]
    for kind in chosen:
        if kind not in known_kinds:
            raise argparse.ArgumentTypeError(f"no sweep makes {kind!r}, wanted some of {', '.join(known_kinds)}")
    return chosen


def part(text: str) -> tuple[int, int]:
    """Convert ``--part``: ``I/N``, with I from 1 to N (argparse type)."""
    found = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text)
    number, count = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= count:
        raise argparse.ArgumentTypeError(f"wanted I/N with I from 1 to N, such as 1/4, got {text!r}")
    return number, count


OF_SWEEPS: tuple[Option, ...] = (
    BUDGET,
    (
        "--sites",
        {
            "metavar": "TEXT",
            "help": "only call sites that contain this text, or that match it if it has *, ? or [ (default: all)",
        },
    ),
    (
        "--kinds",
        {
            "type": kinds,
            "metavar": "KIND,...",
            "help": "only these kinds, by their names in the table, such as 'Delay request', or by the first words of "
            f"the names (default: all but {' and '.join(_ASKED)})",
        },
    ),
    (
        "--part",
        {
            "type": part,
            "metavar": "I/N",
            "help": "only part I of N: each cell is in one part, the same on every machine; with --pairs each pair, "
            "while every part runs all single cells (default: all)",
        },
    ),
    (
        "--pairs",
        {
            "action": "store_true",
            "help": "afterwards hurt two calls at once, by faults that it survives alone (default: one at a time)",
        },
    ),
    DIR,
    EXPECT,
    *REPORTS,
)


_ABOUT = (
    "Run a tutorial without faults to find its RPC call sites. Then run it once for each site, each kind of fault, and "
    "the first and the last call.",
    "Run a program of your own without faults to find its RPC call sites. Then run it once for each site, each kind of "
    "fault, and the first and the last call, and check its results.",
)
_OPTIONS = (OF_SWEEPS, (*OF_RESULTS, DEADLINE_OF_SWEEP, BOUND, *OF_SWEEPS))


def main(arguments: Sequence[str], program: list[str] | None) -> int:
    """Run the command for a tutorial, or for the program of these words, and return its exit status."""
    target, options = target_of("sweep", _ABOUT, arguments, program, _OPTIONS)
    return sweep_target(target, options)


def sweep_target(target: Target, options: Any) -> int:
    """Sweep any target, and return the exit status. ``options``: those of `OF_SWEEPS`, None where not given."""
    check_reports(options)
    with stored(options.dir) as (place, passed), reserved(place):
        healthy, run = target.again(place)
        if not census(healthy.timeline):
            raise SweepFailed(f"{healthy.name} calls no Python function over RPC: a sweep needs at least one call")
        run_cells(run, healthy, place, options, target.turn(healthy), passed)
    return exit_status(all_passed(passed))


def chosen(every: Sequence[Cell], options: Any) -> list[Cells]:
    """Select cells by ``--sites``, ``--kinds`` and ``--part``.

    Raises:
        BadInput: no cell is selected by the first two, or none of a given kind. A part may be empty.
    """
    at_sites = [cell for cell in every if _is_at(cell.site, options.sites)]
    if options.kinds is None:
        missing = [] if at_sites else ["any kind"]
    else:
        missing = [kind for kind in options.kinds if not any(_is(cell, kind) for cell in at_sites)]
    if missing:
        where = "" if options.sites is None else f" with --sites {options.sites}"
        raise BadInput(f"no cell of {', '.join(missing)}{where}: nothing to sweep, see `list`")
    found: list[Cells] = [
        (cell,) for cell in at_sites if options.kinds is None or any(_is(cell, kind) for kind in options.kinds)
    ]
    return found if options.pairs else in_part(found, options)


def in_part(every: Iterable[Cells], options: Any) -> list[Cells]:
    """Select cells or pairs by ``--part``. Their names alone decide, so that none is left out where calls differ."""
    number, count = options.part or (1, 1)
    named = [(" + ".join(sorted(cell.name for cell in each)), each) for each in every]
    return [each for name, each in named if crc32(name.encode()) % count == number - 1]


def asked(every: Sequence[Unhurt], options: Any) -> list[Unhurt]:
    """Select what is not hurt by ``--sites`` and ``--kinds``."""
    kinds = options.kinds
    at_sites = [each for each in every if _is_at(each.site, options.sites)]
    return [each for each in at_sites if kinds is None or each.injection == "all" or each.injection in kinds]


def _is_at(site: str, text: str | None) -> bool:
    if text is None:
        return True
    return fnmatchcase(site, text) if any(sign in text for sign in "*?[") else text in site


def _is(cell: Cell, kind: str) -> bool:
    return kind in (cell.injection, cell.injection.split()[0])


def print_sweep(name: str, swept: Swept) -> None:
    """Print the tables, what is not hurt, and the counts of verdicts."""
    alone, both = ([each for each in swept.results if len(each.cells) == size] for size in (1, 2))
    console().print(_table(f"{name}: {len(alone)} of {swept.cells} cells, each under 1 fault", alone))
    if swept.pairs:
        console().print(_table(f"{name}: {len(both)} of {swept.pairs} pairs, each under 2 faults", both))
    for each in swept.unhurt:
        print(one_line(f"not hurt: {each.site}, {each.injection}: {each.reason}"))
    print(f"{'alone: ' * bool(swept.pairs)}{_counts(alone)}")
    if swept.pairs:
        print(f"in pairs: {_counts(both)}")
    if swept.not_run:
        print(f"{swept.not_run} of {swept.size} cells{' and pairs' * bool(swept.pairs)} were not run")


def _counts(results: Sequence[Result]) -> str:
    counts = Counter(result.judgement.verdict for result in results)
    return ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))


def _table(title: str, results: Sequence[Result]) -> Table:
    table = Table(title=one_line(title))
    for column in ("site", "kind", "call", "seconds", "verdict", "what was seen"):
        table.add_column(column, overflow="fold")
    for result in results:
        places = [(cell.site, cell.injection, f"{cell.occurrence}: {cell.caller}") for cell in result.cells]
        seen = (f"{result.seconds:.1f}", result.judgement.verdict, result.detail[:300])
        table.add_row(*map("\n".join, zip(*places, strict=True)), *seen)
    return table


def run_cells(
    run: Runner, healthy: Run, place: Path, options: Any, timeout: float, passed: list[bool | None]
) -> list[Result]:
    """Run the cells that ``options`` choose, print the table, and return the results.

    ``healthy``: the run that shows the calls; ``timeout``: seconds that a call waits for its turn; ``passed``: gets
    whether each run passed, also if the sweep is interrupted.
    """
    ways = list(every_way(census(healthy.timeline, internal=True), timeout, options.kinds or ()))
    todo = chosen([each for each in ways if isinstance(each, Cell)], options)
    swept = Swept(cells=len(todo), unhurt=asked([each for each in ways if isinstance(each, Unhurt)], options))
    due = None if options.budget is None else time.monotonic() + options.budget

    def run_each(todo: Sequence[Cells]) -> None:
        left = None if due is None else due - time.monotonic()
        with countdown(healthy.name, len(todo), left) as tick:
            for result in sweep(run, todo, place, due=due, done=len(swept.results), on_start=tick):
                swept.results.append(result)
                passed.append(result.passed)

    if not todo:
        print("no cell is in this part: nothing was run", file=sys.stderr)
    remove_numbered(place)
    swept.interrupted = True
    try:
        run_each(todo)
        if options.pairs:
            pairs = in_part(pairs_of(swept.results), options)
            swept.pairs = len(pairs)
            run_each(pairs)
        swept.interrupted = False
    finally:  # even if the sweep is interrupted
        print_sweep(healthy.name, swept)
        write_sweep(options, healthy.name, swept)
    return swept.results
