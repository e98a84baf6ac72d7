"""Run ``run NAME`` with options that ask for a table: several runs, one world after the other, and a picture."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from reference import load
from reference.cli.failure import report_failure
from reference.cli.options import BadInput, check_device, check_writable
from reference.cli.picture import SUFFIXES, drawable
from reference.cli.progress_bar import watch
from reference.cli.timing import TIMINGS, CellFailed, Measured, TimingGrid, timed, warm_up
from reference.verify.verify import prove
from reference.world.start import check_deadline


def table_options(name: str) -> list[str]:
    """The names that argparse gives to the options of ``run NAME`` for its table."""
    return [option.replace("-", "_") for option in (*TIMINGS[name].options, "picture")] if name in TIMINGS else []


def table_of(
    name: str, given: Mapping[str, Any], chosen: Mapping[str, Any], save: str | None, deadline: float
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
    if save is not None:
        raise BadInput("--save is for one run, got options for a table of several")
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
