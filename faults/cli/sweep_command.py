"""Run ``sweep`` of ``python -m faults``: every cell of a tutorial, as a table of verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from faults.cli.commands import console, stored
from faults.cli.options import DIR, Option, kinds, seconds, tutorial_of
from faults.cli.progress_bar import countdown
from faults.run.subject import Subject
from faults.run.sweep import Cell, Result, cells, record, sweep
from reference.cli.options import BadInput

_BUDGET: Option = (
    "--budget",
    {"type": seconds, "metavar": "X", "help": "seconds after which no run begins (default: no limit)"},
)
_SITES: Option = ("--sites", {"metavar": "TEXT", "help": "only call sites that contain this text (default: all)"})
_KINDS: Option = (
    "--kinds",
    {
        "type": kinds,
        "metavar": "KIND,...",
        "help": "only these kinds, by their names in the table, such as 'Delay request', or by the first words of the "
        "names (default: all but 'Corrupt', which needs calls with tensors, and a program that checks its data)",
    },
)


def run_sweep(arguments: Sequence[str]) -> int:
    """Sweep a tutorial, and print the table of verdicts."""
    about = (
        "Run a tutorial without faults to find its RPC call sites. Then run it once for each site, each kind of fault, "
        "and the first and the last call."
    )
    subject, options = tutorial_of("sweep", about, arguments, _BUDGET, _SITES, _KINDS, DIR)
    return sweep_of(subject, options)


def sweep_of(subject: Subject, options: Any) -> int:
    """Sweep any subject, and return the exit status.

    ``options``: `dir`, `sites`, `kinds`, `budget`, each None where not given.
    """
    with stored(options.dir) as (place, passed):
        sites, healthy = record(subject, place / "healthy")
        corrupt = any(kind.startswith("Corrupt") for kind in options.kinds or ())
        todo = _chosen(list(cells(sites, subject.timeout, corrupt=corrupt)), options)
        results: list[Result] = []
        try:
            with countdown(subject.name, len(todo), options.budget) as tick:
                for result in sweep(subject, todo, place, healthy=healthy, budget=options.budget, on_start=tick):
                    results.append(result)
                    passed.append(result.passed)
        finally:  # even if the sweep is interrupted
            _print_sweep(subject, results, len(todo))
    return status_of(passed)


def status_of(passed: Sequence[bool | None]) -> int:
    """Combine runs into one exit status: 1 if one failed, otherwise 2 if one is unknown."""
    return 1 if False in passed else 2 if None in passed else 0


def _chosen(every: Sequence[Cell], options: Any) -> list[Cell]:
    """Select cells by ``--sites`` and ``--kinds``. Raises BadInput: no cell is selected, or none of a given kind."""
    at_sites = [cell for cell in every if (options.sites or "") in cell.site]
    if options.kinds is None:
        missing = [] if at_sites else ["any kind"]
    else:
        missing = [kind for kind in options.kinds if not any(_is(cell, kind) for cell in at_sites)]
    if missing:
        where = "" if options.sites is None else f" with --sites {options.sites}"
        raise BadInput(f"no cell of {', '.join(missing)}{where}: nothing to sweep, see `list`")
    return [cell for cell in at_sites if options.kinds is None or any(_is(cell, kind) for kind in options.kinds)]


def _is(cell: Cell, kind: str) -> bool:
    return kind in (cell.injection, cell.injection.split()[0])


def _print_sweep(subject: Subject, results: Sequence[Result], wanted: int) -> None:
    table = Table(title=f"{subject.name}: {len(results)} of {wanted} cells, each under 1 fault")
    for column in ("site", "kind", "call", "seconds", "verdict", "what was seen"):
        table.add_column(column, overflow="fold", justify="right" if column == "seconds" else "left")
    for result in results:
        cell = result.cell
        call = f"{cell.occurrence}: {cell.caller}"
        table.add_row(
            cell.site, cell.injection, call, f"{result.seconds:.1f}", result.judgement.verdict, result.detail[:300]
        )
    console().print(table)
    counts = Counter(_verdict(result) for result in results)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    if len(results) < wanted:
        print(f"{wanted - len(results)} of {wanted} cells were not run")


def _verdict(result: Result) -> str:
    verdict = result.judgement.verdict
    return f"needless {verdict[6:]}" if result.passed is False and verdict == "clean error" else verdict
