"""Run ``run NAME`` with options that ask for a table: several runs, one world after the other, and a picture."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from reference import load
from reference.cli.options import BadInput, check_device, check_writable, report_failure, whole_number
from reference.cli.progress_bar import watch
from reference.outcome import Returned
from reference.system.files import whole
from reference.system.interrupts import under_torchrun
from reference.trace.case import Case
from reference.trace.progress import Report
from reference.verify.verify import culprits, prove
from reference.world.launcher import launch
from reference.world.start import check_deadline

SUFFIXES = (".png", ".svg", ".pdf")


def draw(
    path: str | os.PathLike[str],
    lines: Mapping[str, Sequence[tuple[float, float]]],
    *,
    x: str,
    y: str,
    title: str = "",
) -> None:
    """Draw one line per entry through its points (x, y), in their order; the x axis has only whole numbers.

    The file, whose name ends with one of `SUFFIXES`, is written whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    # Without `pyplot` no window is opened, whatever the user's settings say.
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    for name, points in lines.items():
        axes.plot([a for a, _ in points], [b for _, b in points], marker="o", label=name)
    axes.set(xlabel=x, ylabel=y, title=title)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if len(lines) > 1:
        axes.legend()
    with whole(path) as scratch:
        figure.savefig(scratch, format=Path(path).suffix[1:])  # `path` may link to a file with another name


Values = Mapping[str, Any]


class CellFailed(RuntimeError):
    """A world of the table failed: the outcomes and logs of the roles that failed by themselves."""


@dataclass(frozen=True)
class TimingGrid:
    """A table's cases: ``rows`` has them by number (of observers, of splits), then by way of computing.

    A table with a single way gives it no name.
    """

    over: str
    step: str
    rows: Mapping[int, Mapping[str, Case]]

    def cells(self) -> Iterator[tuple[int, str, Case]]:
        for number, ways in self.rows.items():
            for way, case in ways.items():
                yield number, way, case

    def columns(self) -> list[str]:
        """The table's column titles."""
        ways = list(next(iter(self.rows.values())))
        each = [f"{way} seconds per {self.step}".strip() for way in ways]
        return [self.over, *(f"{way} seconds".strip() for way in ways), *each]


@dataclass(frozen=True)
class Times:
    """Seconds of a world from its start to its end, and the median seconds between two steps (None with one step)."""

    world: float
    step: float | None


def several(text: str) -> list[int]:
    """Parse an option's whole numbers, which are at least 1, separated by commas, and all different."""
    numbers = [whole_number(part) for part in text.split(",")]
    if len(set(numbers)) != len(numbers):
        raise argparse.ArgumentTypeError(f"must name every number once, got {text!r}")
    return numbers


def _refuse(given: Values, names: Sequence[str], option: str) -> None:
    for name in names:
        if name in given:
            raise BadInput(f"--{name.replace('_', '-')} cannot be given with {option}, which sets it")


def compare_batching(kind: type[Case], given: Values, options: Values) -> TimingGrid | None:
    """Make the published main()'s table: 1 to 10 observers, batched and not."""
    if not options["compare_batching"]:
        if options["max_observers"] is not None:
            raise BadInput("--max-observers needs --compare-batching")
        return None
    _refuse(given, ("observers", "batch"), "--compare-batching")
    ways = {"batched": True, "unbatched": False}
    numbers = range(1, (options["max_observers"] or 10) + 1)
    rows = {n: {way: kind(**{**given, "observers": n, "batch": batch}) for way, batch in ways.items()} for n in numbers}
    return TimingGrid("observers", "episode", rows)


def over_splits(kind: type[Case], given: Values, options: Values) -> TimingGrid | None:
    """Make the published main()'s table: numbers of micro-batches; ``--small`` takes two cores about a minute."""
    if options["splits"] is None:
        if options["small"]:
            raise BadInput("--small needs --splits")
        return None
    _refuse(given, ("num_split",), "--splits")
    if options["small"] and given.get("arithmetic") == "exact":
        raise BadInput("--small cannot be given with --arithmetic exact, whose images are smaller")
    small = {"batch_size": 16, "image_w": 64, "image_h": 64} if options["small"] else {}
    return TimingGrid(
        "splits", "batch", {n: {"": kind(**{**small, **given, "num_split": n})} for n in options["splits"]}
    )


# What makes a tutorial's table of the case's fields that the user set, and of the values of the table's options. It
# returns None if these ask for no table.
GRIDS: dict[str, Callable[[type[Case], Values, Values], TimingGrid | None]] = {
    "batch_reinforce": compare_batching,
    "pipeline": over_splits,
}

_PICTURE = "save the table's picture there (default: NAME.png, which is not replaced)"

# The options of each table, for argparse: name without dashes, to keywords.
OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "batch_reinforce": {
        "compare-batching": {"action": "store_true", "help": "time both modes with 1, 2, … observers, as a table"},
        "max-observers": {
            "type": whole_number,
            "metavar": "N",
            "help": "with --compare-batching: the most observers (default: 10)",
        },
        "picture": {"metavar": "FILE", "help": _PICTURE},
    },
    "pipeline": {
        "splits": {
            "type": several,
            "metavar": "N,N,…",
            "help": "time each of these numbers of micro-batches, as a table",
        },
        "small": {"action": "store_true", "help": "with --splits: 16 images of 64 by 64"},
        "picture": {"metavar": "FILE", "help": _PICTURE},
    },
}


class Clock:
    """Notes the time of each step when the first role reports it. Roles may report the same step at once."""

    def __init__(self, report: Report | None) -> None:
        self.report = report
        self.times: list[float] = []

    def __call__(self, role: str, record: dict[str, Any]) -> None:
        if record["step"] > len(self.times):
            self.times.append(record["time"])
        if self.report is not None:
            self.report(role, record)

    def median(self) -> float | None:
        """The median seconds between two successive steps; None with fewer than two steps."""
        gaps = [after - before for before, after in pairwise(self.times)]
        return statistics.median(gaps) if gaps else None


def warm_up() -> None:
    """Run a world before the first timed one, whose time would include the forkserver's start (S2.36)."""
    with launch(["warm"], isolated=True) as world:
        world.wait()


def timed(case: Case, deadline: float, report: Report | None = None) -> Times:
    """Run one case in a world of its own and time it.

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


def table_of(grid: TimingGrid, times: Mapping[tuple[int, str], Times], title: str) -> Table:
    """Make the table of all rows whose cases have their times."""
    table = Table(*grid.columns(), title=title)
    for column in table.columns:
        column.justify = "right"
    for number, ways in grid.rows.items():
        cells = [times[number, way] for way in ways if (number, way) in times]
        if len(cells) == len(ways):
            each = ["-" if cell.step is None else f"{cell.step:.3f}" for cell in cells]
            table.add_row(str(number), *(f"{cell.world:.2f}" for cell in cells), *each)
    return table


def grid_of(name: str, given: Values, chosen: Values, picture: str, deadline: float, single: str) -> TimingGrid | None:
    """Make the table that is asked for, with all its cases; None for a plain run.

    Args:
        given: the case's fields that the user set.
        chosen: the values of the options in `OPTIONS`.
        picture: the file to draw.
        single: an option for one run that the user gave; empty if there is none.
    """
    if name not in GRIDS:
        return None
    grid = GRIDS[name](load(name).Case, {"record": "ends", **given}, chosen)
    if grid is None:
        if chosen["picture"] is not None:
            raise BadInput("--picture is for a table of several runs, got options for one run")
        return None
    if single:
        raise BadInput(f"{single} is for one run, got options for a table of several")
    if under_torchrun():
        raise BadInput("a table of several runs starts its own processes: wanted it without torchrun")
    if Path(picture).suffix not in SUFFIXES:
        raise BadInput(f"cannot draw {picture}, wanted a name that ends with {' or '.join(SUFFIXES)}")
    check_writable(picture)
    if chosen["picture"] is None and Path(picture).exists():
        raise BadInput(f"{picture} exists and is not replaced, wanted another file by --picture FILE")
    check_deadline(deadline)
    for _, _, case in grid.cells():
        check_device(case)
        prove(case)
    return grid


def run_table(name: str, grid: TimingGrid, picture: str, deadline: float) -> int:
    """Run the table's cases one after the other; print the table of those that have run, and draw a whole one."""
    times: dict[tuple[int, str], Times] = {}
    warm_up()
    try:
        for number, way, case in grid.cells():
            with watch(f"{name} {grid.over}={number} {way}".strip()) as progress:
                times[number, way] = timed(case, deadline, progress)
    except CellFailed as error:
        report_failure(name, *error.args)
        return 1
    finally:
        if times:  # those before an interrupt, too
            Console(width=None if sys.stdout.isatty() else 140).print(table_of(grid, times, name))
    lines: dict[str, list[tuple[float, float]]] = {}
    for (number, way), cell in times.items():
        lines.setdefault(way, []).append((number, cell.world))
    draw(picture, lines, x=grid.over, y="seconds", title=name)
    print(f"picture saved to {picture}")
    return 0
