"""Run the chosen cells of a sweep, then pairs of them, show how far it is, and print its tables."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from faults.cli.progress_bar import countdown
from faults.cli.report_files import write_sweep
from faults.cli.sweep_options import asked, chosen, in_part, wanted
from faults.cli.sweep_table import print_sweep
from faults.ledger.census import census
from faults.ledger.record import Run
from faults.ledger.run_files import remove_numbered
from faults.run.call_ends import call_ends
from faults.run.cells import Cell, Pair, Unhurt, every_way
from faults.run.pairs import Pairs, combine
from faults.run.sweep import Result, Runner, sweep
from faults.run.swept import Swept


def run_cells(
    run: Runner, healthy: Run, place: Path, options: Any, timeout: float, passed: list[bool | None]
) -> list[Result]:
    """Run the cells that ``options`` choose, print the table, and return the results.

    ``healthy``: the run that shows the calls; ``timeout``: seconds that a call waits for its turn; ``passed``: gets
    whether each run passed, also if the sweep is interrupted.
    """
    corrupt = any(kind.startswith("Corrupt") for kind in options.kinds or ())
    ways = list(every_way(census(healthy.timeline, internal=True), timeout, corrupt=corrupt))
    todo = chosen([each for each in ways if isinstance(each, Cell)], options)
    swept = Swept(cells=len(todo), unhurt=asked([each for each in ways if isinstance(each, Unhurt)], options))
    each_of = partial(_run_each, run, healthy.name, place, options.budget, time.monotonic(), swept, passed)
    if not todo:
        print("no cell is in this part: nothing was run", file=sys.stderr)
    remove_numbered(place)
    swept.interrupted = True
    try:
        each_of(todo)
        if options.pairs:
            pairs = _pairs(swept.results, healthy, options)
            todo_pairs = in_part(pairs.todo, options)
            swept.pairs, swept.left_out = len(todo_pairs), pairs.left_out
            each_of(todo_pairs)
        swept.interrupted = False
    finally:  # even if the sweep is interrupted
        print_sweep(healthy.name, swept)
        write_sweep(options, healthy.name, swept)
    return swept.results


def _run_each(
    run: Runner,
    name: str,
    place: Path,
    budget: float | None,
    begun: float,
    swept: Swept,
    passed: list[bool | None],
    todo: Sequence[Cell] | Sequence[Pair],
) -> None:
    how: dict[str, Any] = {"budget": budget, "spent": time.monotonic() - begun, "done": len(swept.results)}
    with countdown(name, len(todo), None if budget is None else budget - how["spent"]) as tick:
        for result in sweep(run, todo, place, on_start=tick, **how):
            swept.results.append(result)
            passed.append(result.passed)


def _pairs(results: Sequence[Result], healthy: Run, options: Any) -> Pairs:
    sites = census(healthy.timeline)
    return combine(results, call_ends(healthy.timeline), sites, partial(wanted, options=options))
