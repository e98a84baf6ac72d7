"""Measure what a plan costs calls that it does not affect: microseconds of a small `rpc_sync` between two roles.

    python benchmarks/overhead.py --repeats 7 --json overhead.json

Four ways: without `faults`; with an empty plan, which must not be measurable; with calls recorded in ledgers; and with
a plan that waits for a call that never comes, so that calls are counted, looked up and recorded.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

import measure
import torch.distributed.rpc as rpc

from faults.plan import Plan
from faults.run.runs import scope

ELSEWHERE = "Drop site=benchmarks:never role=caller nth=1000000000 side=reply"
BATCH = 200


def nothing() -> None:
    """Runs on the callee."""


def call(count: int) -> float:
    """Runs on the caller: microseconds per call, as the median of batches."""
    batches = []
    for _ in range(1 + count // BATCH):
        begin = time.perf_counter()
        for _ in range(BATCH):
            rpc.rpc_sync("callee", nothing)
        batches.append((time.perf_counter() - begin) / BATCH * 1e6)
    return median(batches[1:])  # the first one warms up


def once(count: int, plan: str | None, record: bool = False) -> float:
    """Measure in one world of two roles."""
    roles: dict[str, Callable[[], object]] = {"caller": partial(call, count), "callee": nothing}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        arguments = {} if plan is None else stack.enter_context(scope(Plan.parse(plan), folder, record=record))
        value = measure.play(roles, deadline=120, **arguments)["caller"]
    assert isinstance(value, float)
    return value


def main() -> None:
    built = measure.parser(__doc__ or "")
    built.add_argument("--repeats", type=measure.count, default=7, metavar="N", help="number of worlds for each way")
    built.add_argument("--calls", type=measure.count, default=4000, metavar="N", help="number of calls in each world")
    options = built.parse_args()
    facts = measure.machine()
    ways = {
        "without": partial(once, options.calls, None),
        "empty plan": partial(once, options.calls, "seed=0"),
        "recorded": partial(once, options.calls, "seed=0", record=True),
        "a plan elsewhere": partial(once, options.calls, ELSEWHERE),
    }
    once(BATCH, None)  # starts the forkserver
    samples = measure.interleaved(ways, options.repeats, unit="us")
    figures = {name: measure.spread(each) for name, each in samples.items()}
    compared = {name: measure.ratios(each, samples["without"]) for name, each in samples.items() if name != "without"}
    rows = [[name, *measure.cells(each, 1)] for name, each in figures.items()]
    rows += [[f"{name} / without", *measure.cells(each, 3)] for name, each in compared.items()]
    print(measure.heading(facts) + measure.table(["microseconds per call", "median", "min", "max"], rows))
    measure.write(options.json, "overhead", facts, microseconds=figures, ratios=compared)


if __name__ == "__main__":
    measure.run(main)
