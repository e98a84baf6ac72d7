"""Print the tables of a sweep's verdicts, and what the sweep does not hurt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.table import Table

from faults.cli.run_report import console
from faults.run.sweep import Result
from faults.run.swept import Swept
from reference.system.printable import one_line


def print_sweep(name: str, swept: Swept) -> None:
    """Print the tables, what is not hurt, and the counts of verdicts."""
    for size, wanted in ((1, swept.cells), (2, swept.pairs)):
        results = [result for result in swept.results if len(result.cell.cells) == size]
        if size == 1 or wanted:
            kind, faults = ("cells", "1 fault") if size == 1 else ("pairs", "2 faults")
            console().print(_table(f"{name}: {len(results)} of {wanted} {kind}, each under {faults}", results))
    for each in swept.unhurt:
        print(one_line(f"not hurt: {each.site}, {each.injection}: {each.reason}"))
    for reason, count in (swept.left_out or {}).items():
        print(one_line(f"not combined: {count} {'pair' if count == 1 else 'pairs'}: {reason}"))
    alone, both = ([each for each in swept.results if len(each.cell.cells) == size] for size in (1, 2))
    print(f"{'alone: ' * bool(swept.pairs)}{_counts(alone)}")
    if swept.pairs:
        print(f"in pairs: {_counts(both)}")
    if swept.not_run:
        print(f"{swept.not_run} of {swept.wanted} cells{' and pairs' * bool(swept.pairs)} were not run")


def _counts(results: Sequence[Result]) -> str:
    counts = Counter(result.judgement.verdict for result in results)
    return ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))


def _table(title: str, results: Sequence[Result]) -> Table:
    table = Table(title=one_line(title))
    for column in ("site", "kind", "call", "seconds", "verdict", "what was seen"):
        table.add_column(column, overflow="fold", justify="right" if column == "seconds" else "left")
    for result in results:
        cells = result.cell.cells
        calls = [f"{cell.occurrence}: {cell.caller}" for cell in cells]
        columns = [[cell.site for cell in cells], [cell.injection for cell in cells], calls]
        seen = (f"{result.seconds:.1f}", result.judgement.verdict, result.detail[:300])
        table.add_row(*("\n".join(column) for column in columns), *seen)
    return table
