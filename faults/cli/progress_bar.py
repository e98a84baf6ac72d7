"""Show how far a sweep is and how long it will still take: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from reference.cli.progress_bar import has_bars
from reference.system.text import one_line

SECONDS_BETWEEN_LINES = 5.0

Tick = Callable[[int], None]


def seconds_left(done: int, total: int, elapsed: float, budget: float | None) -> float:
    """Estimate the remaining seconds from the runs so far; never more than what remains of the budget."""
    rest = elapsed / done * (total - done) if done else 0.0
    return rest if budget is None else max(0.0, min(rest, budget - elapsed))


@contextmanager
def countdown(title: str, total: int, budget: float | None = None) -> Iterator[Tick]:
    """Yield the function to call with each run's number, from 0, when that run begins."""
    title = one_line(title)
    with _bar(title, total) if has_bars() else _lines(title, total, budget) as tick:
        yield tick


@contextmanager
def _lines(title: str, total: int, budget: float | None) -> Iterator[Tick]:
    begun = said = time.monotonic()

    def tick(number: int) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= SECONDS_BETWEEN_LINES:
            said = now
            rest = seconds_left(number, total, now - begun, budget)
            print(f"{title}: {number} of {total} runs, about {rest:.0f} s left", file=sys.stderr, flush=True)

    yield tick


@contextmanager
def _bar(title: str, total: int) -> Iterator[Tick]:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(title, total=total)
        yield lambda number: bars.update(bar, completed=number)
