"""Measure how time and memory grow with roles, parameters, steps, events in ledgers, traces, and cells of a sweep.

    python benchmarks/growth.py --json growth.json
    python benchmarks/growth.py --only roles steps --divide 10

Each quantity takes five sizes over two decades, in a process of its own, by the functions that the commands run. The
smallest size is run once before, uncounted: it starts the forkserver. Of sizes of the lower decade the median of three
runs counts.

A figure is taken to be ``constant + factor * size ** exponent``, of which the constant is found by least squares of
relative errors over all sizes. The exponents are the slopes of log(figure - constant) against log(size), by least
squares: of all sizes, and of the upper decade, beside which stands the slope of size * log(size) there. Memory (MiB) is
the peak of the command's own process beyond what it has before; of a world, what all its roles have (`worlds.memory`).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import measure
import numpy as np
import torch
import torch.distributed.rpc as rpc
import worlds

from faults.cli.main import main as faults
from faults.plan.plan import Plan
from faults.run.runs import Subject, run
from reference import load
from reference.cli.main import main as reference
from reference.trace.trace import Trace

DEADLINE = 600.0
RAISE = "Raise site=worlds:answer side=request"
# Faults whose runs do not wait for a time-out, and their cells in the sweep of `rpc_basics`.
QUICK, CELLS = "Delay,Duplicate,Hold,Raise,Crash,Hold at,Pause at,Crash at", 110
ELEMENTS = 2**18  # of a trace's tensor: 1 MiB
SIZE = "size"  # names what a measurement took, if that is not what it was asked for

# Seconds and MiB, by what was measured.
Figures = dict[str, tuple[float, float]]


def memory(name: str) -> float:
    """Return a line of /proc/self/status in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


def timed(base: float, function: Callable[..., object], *args: object) -> tuple[float, float]:
    """Return the seconds of a call, and this process's peak of memory beyond ``base``."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    started = time.monotonic()
    function(*args)
    return time.monotonic() - started, memory("VmHWM") - base


def command(main: Callable[[Sequence[str]], int], *words: object) -> None:
    """Run a command line in this process. Raises BenchmarkError: its exit status is not 0."""
    said = StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        status = main([str(word) for word in words])
    if status != 0:
        raise measure.BenchmarkError(f"{' '.join(map(str, words))}: status {status}\n{said.getvalue()[-2000:]}")


def judged(what: str, folder: Path, base: float) -> Figures:
    """Judge a stored run again, and write its page."""
    return {f"faults {name} of {what}": timed(base, command, faults, name, folder) for name in ("check", "report")}


def roles(size: int, folder: Path, base: float) -> Figures:
    """A healthy world; and a run in which all others call the first role, and a fault lets each call fail."""
    first, *others = worlds.names(size)
    playing: dict[str, Callable[[], object]] = {first: worlds.wait_for_shutdown}
    playing |= dict.fromkeys(others, partial(worlds.ask, first))
    hurt = partial(run, Subject("roles", playing, 30.0), Plan.parse(RAISE), folder, deadline=DEADLINE)
    found = {"launch": (worlds.launched(size, DEADLINE), size * worlds.memory(size, DEADLINE))}
    return found | {"a run whose calls fail": timed(base, hurt)} | judged("it", folder, base)


def parameters(size: int, folder: Path, base: float) -> Figures:
    """A linear model of so many weights, trained for three steps, and its twin."""
    words = ("run", "parameter_server", "--inputs", 1000, "--outputs", size // 1000, "--steps", 3, "--verify")
    return {"reference run --verify": timed(base, command, reference, *words)}


def steps(size: int, folder: Path, base: float) -> Figures:
    """A run that is recorded, compared with its twin and judged."""
    words = ("run", "parameter_server", "--healthy", "--steps", size, "--dir", folder)
    return {"faults run --healthy": timed(base, command, faults, *words)}


def call(count: int) -> None:
    """Runs on the caller."""
    for _ in range(count):
        rpc.rpc_sync("callee", worlds.wait_for_shutdown)


def events(size: int, folder: Path, base: float) -> Figures:
    """A run whose ledgers have two events for each call."""
    playing: dict[str, Callable[[], object]] = {"caller": partial(call, size // 2), "callee": worlds.wait_for_shutdown}
    whole = partial(run, Subject("events", playing, 60.0), Plan(), folder, deadline=DEADLINE, recorded=True)
    return {"a recorded run": timed(base, whole)} | judged("it", folder, base)


def trace(size: int, folder: Path, base: float) -> Figures:
    """A trace of so many MiB."""
    file = folder / "trace.safetensors"
    tensors = {f"{step:04d}/gradient/weight": torch.rand(ELEMENTS) for step in range(size)}
    saved = timed(base, Trace(load("parameter_server").Case(steps=size), tensors).save, file)
    del tensors
    return {"Trace.save": saved, "reference compare": timed(base, command, reference, "compare", file, file)}


def cells(size: int, folder: Path, base: float) -> Figures:
    """A sweep of the part of a tutorial's cells that has about so many: their names decide which."""
    words = ("sweep", "rpc_basics", "--kinds", QUICK, "--part", f"1/{CELLS // size}", "--dir", folder)
    found = timed(base, command, faults, *words)
    return {"faults sweep": found, SIZE: (sum(each.name.isdecimal() for each in folder.iterdir()), 0.0)}


class Quantity(NamedTuple):
    """Its smallest possible size, the largest that is measured, and the measurement of one size in a folder."""

    least: int
    largest: int
    take: Callable[[int, Path, float], Figures]

    def sizes(self, divide: int) -> list[int]:
        """Return five sizes over two decades, or fewer where the smallest are not possible."""
        return sorted({max(self.least, round(self.largest / divide / 10 ** (each / 2))) for each in range(5)})


QUANTITIES: Mapping[str, Quantity] = {
    "roles": Quantity(2, 200, roles),
    "parameters": Quantity(100, 10_000_000, parameters),
    "steps": Quantity(1, 1000, steps),
    "events": Quantity(2, 100_000, events),
    "trace": Quantity(1, 100, trace),
    "cells": Quantity(1, CELLS, cells),
}


def take_all(quantity: Quantity, divide: int) -> dict[str, dict[int, tuple[float, float]]]:
    """Measure every size of a quantity in this process, the smallest first."""
    taken: dict[str, dict[int, tuple[float, float]]] = {}
    sizes = quantity.sizes(divide)
    with tempfile.TemporaryDirectory(prefix="growth-") as folder:
        quantity.take(sizes[0], Path(folder), 0.0)
        gc.collect()
        base = memory("VmRSS")
        for size in sizes:
            repeats = [quantity.take(size, Path(folder), base) for _ in range(3 if 10 * size < sizes[-1] else 1)]
            size = int(repeats[0].pop(SIZE, (size, 0.0))[0])
            for name in repeats[0]:
                seconds, mib = zip(*(each[name] for each in repeats), strict=True)
                taken.setdefault(name, {})[size] = statistics.median(seconds), statistics.median(mib)
    return taken


def constant_of(n: Any, values: Any) -> float:
    """Return the constant of the nearest ``constant + factor * n ** exponent``, neither of which is below zero."""
    found = []
    for exponent in np.arange(0.1, 3.0, 0.02):
        terms = np.stack([np.ones_like(n), n**exponent], axis=1) / values[:, None]
        best = np.linalg.lstsq(terms, np.ones_like(n), rcond=None)[0]
        if best.min() < 0:
            best = np.array([0.0, terms[:, 1].sum() / (terms[:, 1] ** 2).sum()])
        found.append((float(((terms @ best - 1) ** 2).sum()), float(best[0])))
    return min(found)[1]


def slope(n: Any, values: Any) -> float | None:
    """Return the exponent; None if fewer than two values are above zero."""
    kept = values > 0
    return float(np.polyfit(np.log(n[kept]), np.log(values[kept]), 1)[0]) if kept.sum() > 1 else None


def fitted(sizes: Sequence[int], values: Sequence[float]) -> dict[str, Any]:
    """Return the figures of one unit, their constant and their exponents."""
    n, found = np.array(sizes, float), np.maximum(values, 0.01)
    constant = constant_of(n, found) if len(n) > 2 else 0.0
    upper = 10.5 * n >= n.max()  # sizes are rounded
    ways = {"all": slope(n, found - constant), "upper decade": slope(n[upper], found[upper] - constant)}
    return {
        "sizes": sizes,
        "figures": values,
        "constant": constant,
        **ways,
        "n log n": slope(n[upper], n[upper] * np.log(n[upper])),
    }


def row(name: str, what: str, unit: str, found: Mapping[str, Any]) -> list[str]:
    """Make a row of the table."""
    figures = [f"{value:.3g}" for value in found["figures"]]
    slopes = [found[each] for each in ("all", "upper decade", "n log n")]
    shown = ["-" if each is None else f"{each:.2f}" for each in slopes]
    return [f"{name}: {what}", " ".join(f"{size:,}" for size in found["sizes"]), unit, " ".join(figures), *shown]


def main() -> None:
    built = measure.parser("Growth of time and memory over two decades of sizes; 4 to 7 minutes on 2 cores.")
    built.add_argument("--only", nargs="+", choices=QUANTITIES, default=[*QUANTITIES], help="only these quantities")
    built.add_argument("--divide", type=measure.count, default=1, metavar="N", help="take an Nth of each size")
    built.add_argument("--alone", choices=QUANTITIES, help=argparse.SUPPRESS)  # in the process of this quantity
    options = built.parse_args()
    if options.alone:
        print(json.dumps(take_all(QUANTITIES[options.alone], options.divide)))
        return
    facts, results, rows = measure.machine(), dict[str, Any](), []
    for name in options.only:
        measure.note(f"{name}: {QUANTITIES[name].sizes(options.divide)}")
        given = ("--alone", name, "--divide", str(options.divide))
        taken = json.loads(measure.output_of(Path(__file__), os.environ, DEADLINE, *given).splitlines()[-1])
        for what, each in taken.items():
            sizes, both = [int(size) for size in each], zip(*each.values(), strict=True)
            found = {unit: fitted(sizes, values) for unit, values in zip(("seconds", "MiB"), both, strict=True)}
            rows += [row(name, what, unit, fit) for unit, fit in found.items()]
            results.setdefault(name, {})[what] = found
    head = ["what grows", "sizes", "unit", "at each size", "exponent of all", "of the upper decade", "of n log n"]
    print(measure.heading(facts) + measure.table(head, rows, words=4))
    measure.write(options.json, "growth", facts, divide=options.divide, results=results)


if __name__ == "__main__":
    measure.run(main)
