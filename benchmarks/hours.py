"""Join runs of one benchmark from different hours: each figure's median, least and greatest value over them.

    python benchmarks/hours.py monday.json tuesday.json wednesday.json

A shared machine is faster in one hour than in another, and one run shows one hour. The files are what ``--json`` of a
benchmark wrote that takes medians. Runs of less than half an hour's distance are refused: they show the same hour.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import measure
from measure import BenchmarkError

# The least number of runs, and the least seconds from one to the next.
RUNS, APART = 3, 1800.0

# The entries that name a row, if a benchmark writes a list of rows.
_NAMES = ("splits", "batch_size", "image", "trainers", "observers")


def figures(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield the name and median of every `measure.spread` in a benchmark's JSON."""
    if isinstance(value, Mapping):
        if {"median", "min", "max"} <= value.keys():
            yield path, float(value["median"])
            return
        for name, each in value.items():
            yield from figures(each, f"{path} / {name}" if path else str(name))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from figures(each, f"{path} {_row(each, number)}")


def _row(value: Any, number: int) -> str:
    named = [f"{name}={value[name]}" for name in _NAMES if isinstance(value, Mapping) and name in value]
    return " ".join(named) or f"[{number}]"


def read(paths: Sequence[Path], apart: float) -> list[dict[str, Any]]:
    """Read the runs, by time. Raises BenchmarkError: too few, of different benchmarks or machines, or too close."""
    runs = sorted((json.loads(path.read_text()) for path in paths), key=_taken)
    if len(runs) < RUNS:
        raise BenchmarkError(f"{len(runs)} runs, wanted at least {RUNS}")
    settings = [{**{name: run["machine"][name] for name in ("python", "torch", "cores")}, **run} for run in runs]
    for name in dict.fromkeys(name for each in settings for name in each):
        found = {str(each.get(name)) for each in settings if not isinstance(each.get(name), list | dict)}
        if len(found) > 1:
            raise BenchmarkError(f"runs with different {name}: {', '.join(sorted(found))}")
    for earlier, later in pairwise(runs):
        between = (_taken(later) - _taken(earlier)).total_seconds()
        if between < apart:
            raise BenchmarkError(f"two runs {between:.0f} s apart, wanted at least {apart:.0f} s")
    return runs


def _taken(run: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(run["machine"]["taken"])


def rows(runs: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """One row per figure that all runs have: its median over the runs, then the least and the greatest."""
    found = [dict(figures({k: v for k, v in run.items() if k != "machine"})) for run in runs]
    shared = [name for name in found[0] if all(name in each for each in found)]
    samples = {name: [each[name] for each in found] for name in shared}
    return [
        [name, *(f"{value:.4g}" for value in (statistics.median(each), min(each), max(each)))]
        for name, each in samples.items()
    ]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=measure.existing, nargs="+", metavar="FILE", help="a file that --json wrote")
    parser.add_argument("--apart", type=measure.seconds, default=APART, help="least seconds between runs (1800)")
    return parser.parse_args()


def main() -> None:
    wanted = arguments()
    runs = read(wanted.runs, wanted.apart)
    facts = runs[0]["machine"]
    times = ", ".join(f"{run['machine']['taken']} (load {run['machine']['load']:.2f})" for run in runs)
    print(f"{runs[0]['benchmark']}: torch {facts['torch']}, {facts['cores']} cores, {len(runs)} runs: {times}\n")
    print(measure.table(["figure", "median", "min", "max"], rows(runs)))


if __name__ == "__main__":
    measure.run(main)
