"""Run the chosen cells of a sweep, show how far it is, and print its table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from faults.cli.progress_bar import countdown
from faults.cli.report_files import write_sweep
from faults.cli.sweep_options import asked, chosen
from faults.cli.sweep_table import print_sweep
from faults.ledger.census import census
from faults.ledger.record import Run
from faults.run.sweep import Cell, Result, Runner, Unhurt, every_way, sweep


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
    unhurt = asked([each for each in ways if isinstance(each, Unhurt)], options)
    results: list[Result] = []
    try:
        with countdown(healthy.name, len(todo), options.budget) as tick:
            for result in sweep(run, todo, place, budget=options.budget, on_start=tick):
                results.append(result)
                passed.append(result.passed)
    finally:  # even if the sweep is interrupted
        print_sweep(healthy.name, results, len(todo), unhurt)
        write_sweep(options, healthy.name, results, len(todo), unhurt)
    return results
