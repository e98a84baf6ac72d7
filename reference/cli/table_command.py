"""Run ``run NAME`` with options that ask for a table: several runs, one world after the other, and a picture."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from reference import load
from reference.cli.options import BadInput, check_device, check_writable, report_failure
from reference.cli.progress_bar import watch
from reference.outcome import Outcome, Returned
from reference.system.files import whole
from reference.trace.case import Case
from reference.verify.verify import culprits, prove
from reference.world.launcher import launch
from reference.world.role_handle import Progress
from reference.world.start import check_deadline

SUFFIXES = (".png", ".svg", ".pdf")


def drawable(path: str | os.PathLike[str]) -> bool:
    """Whether the file's name ends with one of `SUFFIXES`."""
    return Path(path).suffix in SUFFIXES


def draw(
    path: str | os.PathLike[str],
    lines: Mapping[str, Sequence[tuple[float, float]]],
    *,
    x: str,
    y: str,
    title: str = "",
) -> None:
    """Draw one line per entry through its points (x, y), in their order; the x axis has only whole numbers.

    The file is written whole or not at all.

    Raises:
        OSError: the file cannot be written.
        ValueError: the name does not end with one of `SUFFIXES`.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    if not drawable(path):
        raise ValueError(f"{path}: wanted a name that ends with {' or '.join(SUFFIXES)}")
    figure = Figure(figsize=(6, 4), layout="constrained")
    FigureCanvasAgg(figure)  # opens no window, whatever the user's settings say
    axes = figure.add_subplot()
    for name, points in lines.items():
        axes.plot([a for a, _ in points], [b for _, b in points], marker="o", label=name)
    axes.set(xlabel=x, ylabel=y, title=title)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if len(lines) > 1:
        axes.legend()
    with whole(path) as scratch:
        figure.savefig(scratch)


Values = Mapping[str, Any]


class TimingError(BadInput):
    """Two options contradict each other. One line."""


class CellFailed(RuntimeError):
    """A world of the table failed: the outcomes and logs of the roles that failed by themselves."""

    def __init__(self, outcomes: Mapping[str, Outcome], logs: Mapping[str, str]) -> None:
        super().__init__(", ".join(f"{name} {outcome}" for name, outcome in outcomes.items()))
        self.outcomes = outcomes
        self.logs = logs


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
class Timing:
    """A tutorial's table: its options for argparse (name without dashes, to keywords), and what they mean.

    ``grid(given, options)`` gets the case's fields that the user set, and the options' values. It returns None if the
    options ask for no table.
    """

    options: Mapping[str, Mapping[str, Any]]
    grid: Callable[[type[Case], Values, Values], TimingGrid | None]


@dataclass(frozen=True)
class Times:
    """Seconds of a world from its start to its end, and the median seconds between two steps (None with one step)."""

    world: float
    step: float | None


def add_options(parser: argparse.ArgumentParser, timing: Timing) -> None:
    for name, keywords in timing.options.items():
        parser.add_argument(f"--{name}", **keywords)
    parser.add_argument(
        "--picture",
        metavar="FILE",
        help="save the table's picture there (default: NAME.png, which is replaced only after asking)",
    )


def whole_number(text: str) -> int:
    """Parse an option's whole number, which is at least 1."""
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, at least 1, got {text!r}")
    return int(text)


def several(text: str) -> list[int]:
    """Parse an option's whole numbers, which are at least 1, separated by commas, and all different."""
    numbers = [whole_number(part) for part in text.split(",")]
    if len(set(numbers)) != len(numbers):
        raise argparse.ArgumentTypeError(f"must name every number once, got {text!r}")
    return numbers


def _refuse(given: Values, names: Sequence[str], option: str) -> None:
    for name in names:
        if name in given:
            raise TimingError(f"--{name.replace('_', '-')} cannot be given with {option}, which sets it")


def compare_batching(kind: type[Case], given: Values, options: Values) -> TimingGrid | None:
    """Make the published main()'s table: 1 to 10 observers, batched and not."""
    if not options["compare_batching"]:
        if options["max_observers"] is not None:
            raise TimingError("--max-observers needs --compare-batching")
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
            raise TimingError("--small needs --splits")
        return None
    _refuse(given, ("num_split",), "--splits")
    small = {"batch_size": 16, "image_w": 64, "image_h": 64} if options["small"] else {}
    return TimingGrid(
        "splits", "batch", {n: {"": kind(**{**small, **given, "num_split": n})} for n in options["splits"]}
    )


TIMINGS: dict[str, Timing] = {
    "batch_reinforce": Timing(
        {
            "compare-batching": {"action": "store_true", "help": "time both modes with 1, 2, … observers, as a table"},
            "max-observers": {
                "type": whole_number,
                "metavar": "N",
                "help": "with --compare-batching: the most observers (default: 10)",
            },
        },
        compare_batching,
    ),
    "pipeline": Timing(
        {
            "splits": {
                "type": several,
                "metavar": "N,N,…",
                "help": "time each of these numbers of micro-batches, as a table",
            },
            "small": {"action": "store_true", "help": "with --splits: 16 images of 64 by 64"},
        },
        over_splits,
    ),
}


class Clock:
    """Notes the time of each step when the first role reports it. Roles may report the same step at once."""

    def __init__(self, report: Progress | None) -> None:
        self.report = report
        self.times: list[float] = []

    def __call__(self, role: str, record: dict[str, Any]) -> None:
        if record["step"] > len(self.times):
            self.times.append(record["time"])
        if self.report is not None:
            self.report(role, record)

    def median(self) -> float | None:
        """The median seconds between two successive steps; None with fewer than two steps."""
        gaps = [after - before for before, after in zip(self.times, self.times[1:], strict=False)]
        return statistics.median(gaps) if gaps else None


def warm_up() -> None:
    """Run a world before the first timed one, whose time would include the forkserver's start (S2.36)."""
    with launch(["warm"], isolated=True) as world:
        world.wait()


def timed(case: Case, deadline: float, report: Progress | None = None) -> Times:
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


class Measured:
    """The times of a grid's cases that have run so far."""

    def __init__(self, grid: TimingGrid) -> None:
        self.grid = grid
        self.times: dict[tuple[int, str], Times] = {}

    def table(self, title: str) -> Table:
        """Make the table of all complete rows."""
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
        """Draw seconds over the grid's numbers, one line per way."""
        lines: dict[str, list[tuple[float, float]]] = {}
        for (number, way), cell in self.times.items():
            lines.setdefault(way, []).append((number, cell.world))
        draw(path, lines, x=self.grid.over, y="seconds", title=title)


def table_options(name: str) -> list[str]:
    """The names that argparse gives to the options of ``run NAME`` for its table."""
    return [option.replace("-", "_") for option in (*TIMINGS[name].options, "picture")] if name in TIMINGS else []


def table_of(
    name: str, given: Mapping[str, Any], chosen: Mapping[str, Any], save: str | None, verifies: bool, deadline: float
) -> TimingGrid | None:
    """Make the table that is asked for, with all its cases; None for a plain run."""
    if name not in TIMINGS:
        return None
    grid = TIMINGS[name].grid(load(name).Case, {"record": "ends", **given}, chosen)
    picture = chosen["picture"]
    if grid is None:
        if picture is not None:
            raise BadInput("--picture is for a table of several runs, got options for one run")
        return None
    if save is not None or verifies:
        option = "--verify" if verifies else "--save"
        raise BadInput(f"{option} is for one run, got options for a table of several")
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        raise BadInput("a table of several runs starts its own processes: wanted it without torchrun")
    if not drawable(picture or f"{name}.png"):
        raise BadInput(f"cannot draw {picture}, wanted a name that ends with {' or '.join(SUFFIXES)}")
    check_writable(picture or f"{name}.png")
    if picture is None:
        ask_to_replace(f"{name}.png")
    check_deadline(deadline)
    for _, _, case in grid.cells():
        check_device(case)
        prove(case)
    return grid


def ask_to_replace(picture: str) -> None:
    """Ask on the terminal before replacing the picture of an earlier table under its default name.

    Raises:
        BadInput: the answer is no, or there is no terminal to ask on.
    """
    if not Path(picture).exists():
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        print(f"{picture} exists: replace it? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise BadInput(f"{picture} exists and is not replaced, wanted another file by --picture FILE")


def run_table(name: str, grid: TimingGrid, picture: str, deadline: float) -> int:
    measured, failed = Measured(grid), False
    console = Console(width=None if sys.stdout.isatty() else 140)
    warm_up()
    for number, way, case in grid.cells():
        try:
            with watch(f"{name} {grid.over}={number} {way}".strip()) as progress:
                measured.times[number, way] = timed(case, deadline, progress)
        except CellFailed as error:
            report_failure(name, error.outcomes, error.logs)
            failed = True
            break
    console.print(measured.table(name))
    if failed:
        return 1
    measured.draw(picture, name)
    print(f"picture saved to {picture}")
    return 0
