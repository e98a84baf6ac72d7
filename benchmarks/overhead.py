"""Measure what a plan costs calls that it does not hit: microseconds of a small `rpc_sync` between two roles.

    python benchmarks/overhead.py --repeats 7 --json overhead.json

Two ways: calls are recorded in ledgers; a plan waits for a call that never comes, so that calls are also looked up.
Each is compared within one world, some calls without it and then as many with it, because worlds that do the same
differ by a tenth. An empty plan replaces nothing, so there is nothing to measure.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import measure
import torch.distributed.rpc as rpc

from faults import hook
from faults.plan import Plan

WAYS = {"recorded": "seed=0", "a plan elsewhere": "Drop site=benchmarks:never role=caller nth=1000000000 side=reply"}
BATCH = 200


def nothing() -> None:
    """Runs on the callee."""


def batch() -> float:
    """Runs on the caller: microseconds per call."""
    begin = time.perf_counter()
    for _ in range(BATCH):
        rpc.rpc_sync("callee", nothing)
    return (time.perf_counter() - begin) / BATCH * 1e6


def call(folder: Path, plan: Plan, batches: int) -> tuple[list[float], list[float]]:
    """Runs on the caller: microseconds per call of each batch without the plan, and of that with it which follows."""
    without, under_plan = [], []
    batch()  # warms up
    for _ in range(batches):
        without.append(batch())
        hook.activated(folder, "caller", plan).announce("up")  # as `rpc.init_rpc` does
        under_plan.append(batch())
        hook.deactivate()
    return without, under_plan


def once(plan: Plan, batches: int) -> dict[str, float]:
    """Measure in one world of two roles."""
    with tempfile.TemporaryDirectory() as folder:
        roles: dict[str, Callable[[], object]]
        roles = {"caller": partial(call, Path(folder), plan, batches), "callee": nothing}
        measured: Any = measure.play(roles, deadline=120)["caller"]
    without, under_plan = measured
    ratio = median(b / a for a, b in zip(without, under_plan, strict=True))
    return {"without": median(without), "with": median(under_plan), "ratio": ratio}


def main() -> None:
    built = measure.parser(__doc__ or "")
    built.add_argument("--repeats", type=measure.count, default=7, metavar="N", help="number of worlds for each way")
    built.add_argument("--batches", type=measure.count, default=40, metavar="N", help="batches of calls in each world")
    options = built.parse_args()
    facts = measure.machine()
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for repeat in range(1, options.repeats + 1):
        for way, text in WAYS.items():
            found[way].append(once(Plan.parse(text), options.batches))
            measure.note(f"{way}, {repeat} of {options.repeats}: {found[way][-1]['ratio']:.3f} times a call without")
    figures = {
        way: {name: measure.spread([world[name] for world in worlds]) for name in worlds[0]}
        for way, worlds in found.items()
    }
    rows = [
        [f"{way}: {name}", *measure.cells(each, 3 if name == "ratio" else 1)]
        for way, named in figures.items()
        for name, each in named.items()
    ]
    print(measure.heading(facts) + measure.table(["microseconds per call", "median", "min", "max"], rows))
    measure.write(options.json, "overhead", facts, worlds=figures)


if __name__ == "__main__":
    measure.run(main)
