"""Print the table of a sweep's verdicts, and what the sweep does not hurt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.table import Table

from faults.cli.run_report import console
from faults.run.sweep import Result, Unhurt
from reference.system.printable import one_line


def print_sweep(name: str, results: Sequence[Result], wanted: int, unhurt: Sequence[Unhurt] = ()) -> None:
    """Print the table, what is not hurt, and the counts of verdicts. ``wanted``: the number of cells, run or not."""
    table = Table(title=one_line(f"{name}: {len(results)} of {wanted} cells, each under 1 fault"))
    for column in ("site", "kind", "call", "seconds", "verdict", "what was seen"):
        table.add_column(column, overflow="fold", justify="right" if column == "seconds" else "left")
    for result in results:
        cell = result.cell
        call = f"{cell.occurrence}: {cell.caller}"
        table.add_row(
            cell.site, cell.injection, call, f"{result.seconds:.1f}", result.judgement.verdict, result.detail[:300]
        )
    console().print(table)
    for each in unhurt:
        print(one_line(f"not hurt: {each.site}, {each.injection}: {each.reason}"))
    counts = Counter(verdict_of(result) for result in results)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    if len(results) < wanted:
        print(f"{wanted - len(results)} of {wanted} cells were not run")


def verdict_of(result: Result) -> str:
    """Return a cell's verdict in the summary: a clean error after a harmless fault is a needless one."""
    verdict = result.judgement.verdict
    return f"needless {verdict[6:]}" if result.passed is False and verdict == "clean error" else verdict
