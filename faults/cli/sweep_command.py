"""Run ``sweep`` of ``python -m faults``: the chosen cells of a target, then pairs of them, as a table of verdicts."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from bisect import insort
from collections.abc import Iterable, Sequence
from contextlib import closing
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

from faults.cli.options import BOUND, BUDGET, DEADLINE, DEADLINE_OF_SWEEP, DIR, EXPECT, OF_RESULTS, RESTARTS, Option
from faults.cli.progress_bar import countdown
from faults.cli.reports import REPORTS, check_reports, report_sweep, stored
from faults.cli.targets import Target, target_of
from faults.judge.rules import exit_status
from faults.ledger.moments_seen import census, moments_seen
from faults.ledger.record import Run
from faults.ledger.run_files import remove_numbered, reserved
from faults.run.side_by_side import side_by_side
from faults.run.sweep import (
    VARIANTS,
    Cell,
    Cells,
    Runner,
    SweepFailed,
    Swept,
    Unhurt,
    all_passed,
    breadth_first,
    every_way,
    pairs_of,
    sweep,
    variants,
)
from reference.cli.options import BadInput, whole_number

# The names that are swept only if they are named.
_ASKED = ", ".join(name for name, why in VARIANTS.items() if why)
# Most runs wait for something, so a core may have several; each role takes some memory (GiB).
_PER_CORE, _PER_ROLE = 2, 0.25


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
            f"the names (default: all but {_ASKED})",
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
    (
        "--jobs",
        {
            "type": whole_number,
            "default": 1,
            "metavar": "N",
            "help": "runs that go on at once, of a program whose runs do not disturb each other (default: 1)",
        },
    ),
    DIR,
    EXPECT,
    *REPORTS,
)


_ABOUT = (
    "Run {} without faults to find its RPC call sites. Then run it once for each site, each kind of fault, and the "
    "first and the last call, and judge each run."
)
_OPTIONS = ((RESTARTS, DEADLINE, *OF_SWEEPS), (*OF_RESULTS, DEADLINE_OF_SWEEP, BOUND, *OF_SWEEPS))


def main(arguments: Sequence[str], program: list[str] | None) -> int:
    """Run the command for a tutorial, or for the program of these words, and return its exit status."""
    target, options = target_of("sweep", _ABOUT, arguments, program, _OPTIONS)
    return sweep_target(target, options)


def sweep_target(target: Target, options: Any) -> int:
    """Sweep any target, and return the exit status. ``options``: those of `OF_SWEEPS`, None where not given."""
    check_reports(options)
    if options.jobs > 1 and getattr(options, "same_file", None):
        raise BadInput("--same-file names a file that every run writes: wanted it without --jobs")
    with stored(options.dir) as (place, passed), reserved(place):
        healthy, run = target.again(place)
        if not census(healthy.timeline):
            raise SweepFailed(f"{healthy.name} calls no Python function over RPC: a sweep needs at least one call")
        swept = run_cells(run, healthy, place, options, target.turn(healthy), passed)
    return exit_status(all_passed([*passed, *[None] * bool(swept.not_run)]))


def chosen(every: Sequence[Cell], options: Any) -> list[Cells]:
    """Select cells by ``--sites`` and ``--part``, each site once before any twice.

    Raises:
        BadInput: no cell is at these sites, or none of a given kind. A part may be empty.
    """
    at_sites = breadth_first([cell for cell in every if _is_at(cell.site, options.sites)])
    if options.kinds is None:
        missing = [] if at_sites else ["any kind"]
    else:
        missing = [kind for kind in options.kinds if not any(_is(cell, kind) for cell in at_sites)]
    if missing:
        where = "" if options.sites is None else f" with --sites {options.sites}"
        raise BadInput(f"no cell of {', '.join(missing)}{where}: nothing to sweep, see `list`")
    found: list[Cells] = [(cell,) for cell in at_sites]
    return found if options.pairs else in_part(found, options)


def in_part(every: Iterable[Cells], options: Any) -> list[Cells]:
    """Select cells or pairs by ``--part``. Their names alone decide, so that none is left out where calls differ."""
    number, count = options.part or (1, 1)
    named = [(" + ".join(sorted(cell.name for cell in each)), each) for each in every]
    return [each for name, each in named if crc32(name.encode()) % count == number - 1]


def _is_at(site: str, text: str | None) -> bool:
    if text is None:
        return True
    return fnmatchcase(site, text) if any(sign in text for sign in "*?[") else text in site


def _is(cell: Cell, kind: str) -> bool:
    return kind in (cell.injection, cell.injection.split()[0])


def run_cells(run: Runner, healthy: Run, place: Path, options: Any, timeout: float, passed: list[bool | None]) -> Swept:
    """Run the cells that ``options`` choose, print the table, and return what came of them.

    ``healthy``: the run that shows the calls; ``timeout``: seconds that a call waits for its turn; ``passed``: gets
    whether each run passed, also if the sweep is interrupted.
    """
    sites, moments = census(healthy.timeline, internal=True), moments_seen(healthy.timeline)
    ways = list(every_way(sites, timeout, variants(options.kinds), moments))
    todo = chosen([each for each in ways if isinstance(each, Cell)], options)
    unhurt = [each for each in ways if isinstance(each, Unhurt) and _is_at(each.site, options.sites)]
    swept = Swept(wanted=len(todo), unhurt=unhurt)
    due = None if options.budget is None else time.monotonic() + options.budget
    jobs = _bounded(options.jobs, healthy)
    way = sweep if jobs == 1 else partial(side_by_side, jobs=jobs)

    def run_each(todo: Sequence[Cells]) -> None:
        left = None if due is None else due - time.monotonic()
        with countdown(healthy.name, len(todo), left) as tick:
            results = way(run, todo, place, due=due, done=len(swept.results), on_start=tick)
            with closing(results):  # at once, if it is interrupted
                for result in results:
                    insort(swept.results, result, key=lambda each: int(each.folder.name))
                    passed.append(result.passed)

    if not todo:
        print("no cell is in this part: nothing was run", file=sys.stderr)
    remove_numbered(place)
    try:
        run_each(todo)
        if options.pairs:
            pairs = in_part(pairs_of(swept.results), options)
            swept.wanted += len(pairs)
            run_each(pairs)
    finally:  # even if the sweep is interrupted
        report_sweep(options, healthy.name, swept)
    return swept


def _bounded(jobs: int, healthy: Run) -> int:
    """Return how many runs may go on at once on this machine, and say if these are fewer than ``jobs``."""
    roles = max(1, len(healthy.timeline.roles))
    told = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    memory = int(told["MemAvailable"].split()[0]) / 2**20
    most = max(1, min(_PER_CORE * len(os.sched_getaffinity(0)), int(memory / (_PER_ROLE * roles))))
    if jobs > most:
        print(
            f"{most} runs at once, not {jobs}: for {roles} roles each, this machine has no more room", file=sys.stderr
        )
    return min(jobs, most)
