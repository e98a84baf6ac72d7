"""Time one tutorial at several sizes, one world after the other.

`TIMINGS` says which tutorials have such a table, with which options of ``run``, and which cases these mean.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from reference import load
from reference.cli.picture import draw
from reference.outcome import Outcome, Returned
from reference.trace.case import Case
from reference.verify.verify import culprits
from reference.world.launcher import launch
from reference.world.role_handle import Progress

Values = Mapping[str, Any]


class TimingError(ValueError):
    """Options that do not go together, in one line."""


class CellFailed(RuntimeError):
    """A world of the table failed; what its roles ended with, and the logs of those who failed by themselves."""

    def __init__(self, outcomes: Mapping[str, Outcome], logs: Mapping[str, str]) -> None:
        super().__init__(", ".join(f"{name} {outcome}" for name, outcome in outcomes.items()))
        self.outcomes = outcomes
        self.logs = logs


@dataclass(frozen=True)
class TimingGrid:
    """A table: ``rows`` are cases by number (of observers, of splits) and by way; one unnamed way is a plain column."""

    over: str
    step: str
    rows: Mapping[int, Mapping[str, Case]]

    def cells(self) -> Iterator[tuple[int, str, Case]]:
        for number, ways in self.rows.items():
            for way, case in ways.items():
                yield number, way, case

    def columns(self) -> list[str]:
        """The table's head."""
        ways = list(next(iter(self.rows.values())))
        each = [f"{way} seconds {self.step}".strip() for way in ways]
        return [self.over, *(f"{way} seconds".strip() for way in ways), *each]


@dataclass(frozen=True)
class Timing:
    """A tutorial's table: its options for argparse (name without dashes, to keywords), and what they mean.

    ``grid(given, options)`` gets the case's fields that the user set and the options' values; None means no timing.
    """

    options: Mapping[str, Mapping[str, Any]]
    grid: Callable[[type[Case], Values, Values], TimingGrid | None]


@dataclass(frozen=True)
class Times:
    """Seconds of a world from its start to its end, and the median between reports of two steps (None with one)."""

    world: float
    step: float | None


def add_options(parser: argparse.ArgumentParser, timing: Timing) -> None:
    for name, keywords in timing.options.items():
        parser.add_argument(f"--{name}", **keywords)
    parser.add_argument(
        "--picture",
        metavar="FILE",
        help="where the table's picture goes (default: NAME.png, not replaced unasked)",
    )


def whole(text: str) -> int:
    """An option's number from 1."""
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, got {text!r}")
    return int(text)


def several(text: str) -> list[int]:
    """An option's numbers from 1, with commas between them, without repetition."""
    numbers = [whole(part) for part in text.split(",")]
    if len(set(numbers)) != len(numbers):
        raise argparse.ArgumentTypeError(f"must name every number once, got {text!r}")
    return numbers


def _refuse(given: Values, names: Sequence[str], option: str) -> None:
    for name in names:
        if name in given:
            raise TimingError(f"--{name.replace('_', '-')} cannot be given with {option}, which sets it")


def compare_batching(kind: type[Case], given: Values, options: Values) -> TimingGrid | None:
    """The tutorial's main(): 1 to 10 observers, batched and not."""
    if not options["compare_batching"]:
        if options["max_observers"] is not None:
            raise TimingError("--max-observers needs --compare-batching")
        return None
    _refuse(given, ("observers", "batch"), "--compare-batching")
    ways = {"batched": True, "unbatched": False}
    numbers = range(1, (options["max_observers"] or 10) + 1)
    rows = {n: {way: kind(**{**given, "observers": n, "batch": batch}) for way, batch in ways.items()} for n in numbers}
    return TimingGrid("observers", "an episode", rows)


def over_splits(kind: type[Case], given: Values, options: Values) -> TimingGrid | None:
    """The tutorial's main(): one batch as so many micro-batches; ``--small`` for what two cores do in a minute."""
    if options["splits"] is None:
        if options["small"]:
            raise TimingError("--small needs --splits")
        return None
    _refuse(given, ("num_split",), "--splits")
    small = {"batch_size": 16, "image_w": 64, "image_h": 64} if options["small"] else {}
    return TimingGrid(
        "splits", "a batch", {n: {"": kind(**{**small, **given, "num_split": n})} for n in options["splits"]}
    )


TIMINGS: dict[str, Timing] = {
    "batch_reinforce": Timing(
        {
            "compare-batching": {"action": "store_true", "help": "run both modes with 1, 2, … observers: a table"},
            "max-observers": {"type": whole, "metavar": "N", "help": "up to so many observers (default: 10)"},
        },
        compare_batching,
    ),
    "pipeline": Timing(
        {
            "splits": {"type": several, "metavar": "N,N,…", "help": "a table of so many micro-batches each"},
            "small": {"action": "store_true", "help": "with --splits: 16 images of 64 by 64"},
        },
        over_splits,
    ),
}


class Clock:
    """When each step was made, by the first role to report it: here reports of several may arrive at once."""

    def __init__(self, report: Progress | None) -> None:
        self.report = report
        self.times: list[float] = []

    def __call__(self, role: str, record: dict[str, Any]) -> None:
        if record["step"] > len(self.times):
            self.times.append(record["time"])
        if self.report is not None:
            self.report(role, record)

    def median(self) -> float | None:
        """Seconds between two successive steps."""
        gaps = [after - before for before, after in zip(self.times, self.times[1:], strict=False)]
        return statistics.median(gaps) if gaps else None


def warm_up() -> None:
    """A world before the first that counts: the start of the forkserver is none of theirs (S2.36)."""
    with launch(["warm"], isolated=True) as world:
        world.wait()


def timed(case: Case, deadline: float, report: Progress | None = None) -> Times:
    """Run one case in a world of its own.

    Raises:
        CellFailed: a role did not return.
    """
    clock = Clock(report)
    roles = load(case.tutorial()).roles(case)
    start = time.monotonic()
    with launch(roles, deadline=deadline, on_progress=clock, isolated=True) as world:
        outcomes = world.wait()
        seconds = time.monotonic() - start
        if not all(isinstance(outcome, Returned) for outcome in outcomes.values()):
            raise CellFailed(culprits(outcomes), {name: world.log(name) for name in culprits(outcomes)})
    return Times(seconds, clock.median())


class Measured:
    """A grid's times, as they come."""

    def __init__(self, grid: TimingGrid) -> None:
        self.grid = grid
        self.times: dict[tuple[int, str], Times] = {}

    def table(self, title: str) -> Table:
        """All rows that are complete."""
        table = Table(*self.grid.columns(), title=title)
        for column in table.columns:
            column.justify = "right"
        for number, ways in self.grid.rows.items():
            cells = [self.times.get((number, way)) for way in ways]
            if all(cell is not None for cell in cells):
                seconds = [f"{cell.world:.2f}" for cell in cells if cell is not None]
                each = ["-" if cell.step is None else f"{cell.step:.3f}" for cell in cells if cell is not None]
                table.add_row(str(number), *seconds, *each)
        return table

    def draw(self, path: str, title: str) -> None:
        """Seconds over the grid's numbers, a line a way."""
        lines: dict[str, list[tuple[float, float]]] = {}
        for (number, way), cell in self.times.items():
            lines.setdefault(way, []).append((number, cell.world))
        draw(path, lines, x=self.grid.over, y="seconds", title=title)
