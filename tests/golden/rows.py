"""The rows of the tables that have golden runs: each with its plan, and the verdict that was written down for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from faults.plan import Plan
from tests.golden.examples import EXAMPLES, Example
from tests.matrix.matrix import Cell, cells
from tests.programs import verdicts
from tests.programs.verdicts import Expected
from tests.support import retries

# An injection of `retries`, with its program.
Retry = tuple[str, str]


@dataclass(frozen=True)
class Row:
    """One run that is stored. ``entry``: what its table has; its type says how it is run (`recording`)."""

    source: str
    name: str
    plan: Plan
    verdict: str
    entry: Expected | Cell | Retry | Example

    def __str__(self) -> str:
        return f"{self.source}/{self.name}"


def _every() -> Iterator[Row]:
    for each in (*verdicts.HEALTHY, *verdicts.TABLE):
        yield Row("programs", f"{each.program} {each.plan}", Plan.parse(each.plan), each.verdict, each)
    for cell in cells():
        if not cell.needs_netem:  # few kernels have it, so most machines could not record the run
            yield Row("matrix", cell.name, Plan.parse(cell.plan), cell.expected.verdict, cell)
    for program, injections in retries.RUNS.items():
        for injection in injections:
            plan, verdict = retries.plan_of(injection), retries.verdict_of(injection)
            yield Row("retries", f"{program} {injection}", plan, verdict, (program, injection))
    for example in EXAMPLES:
        yield Row("examples", example.name, Plan.parse(example.plan), example.verdict, example)


@cache
def rows() -> dict[str, Row]:
    """Return all rows by their names."""
    return {str(row): row for row in _every()}
