"""Measure what it costs to trace RRefs and autograd contexts: calls that make RRefs, other calls, whole tutorials.

    python benchmarks/leak_tracing.py --pairs 100 --json leak_tracing.json

Calls: microseconds of a small `rpc.remote` with its `to_here`, and of a small `rpc_sync`, between two roles. Batches
without and with a trace follow each other in one world, so that other load of the machine affects both alike. Worlds
are plain, or record their calls in ledgers, as ``--leaks trace`` has it. Tutorials: seconds of a healthy run with
ledgers, without and with a trace, whose end takes stock.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import measure
import torch.distributed.rpc as rpc

from faults import leaks
from faults.cli.tutorial_target import tutorial_of
from faults.plan import Plan
from faults.run.runs import run, scope

TUTORIALS = ("rref_dataflow", "rnn")
BATCH = 50


def nothing() -> None:
    """Runs on the callee."""


def fetch() -> None:
    rpc.remote("callee", nothing).to_here()


def ask() -> None:
    rpc.rpc_sync("callee", nothing)


CALLS = {"remote and to_here": fetch, "rpc_sync": ask}


def pairs(name: str, count: int) -> dict[bool, list[float]]:
    """Runs on the caller: microseconds per call in each batch, without and with a trace of both roles."""
    found: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(1 + count):
        for traced, start in ((False, leaks.untrace), (True, leaks.trace)):
            start()
            rpc.rpc_sync("callee", start)
            begin = time.perf_counter()
            for _ in range(BATCH):
                CALLS[name]()
            found[traced].append((time.perf_counter() - begin) / BATCH * 1e6)
    return {traced: each[1:] for traced, each in found.items()}  # the first ones warm up


def calls(name: str, count: int, *, record: bool) -> dict[bool, list[float]]:
    """Measure in one world of two roles."""
    roles: dict[str, Callable[[], object]] = {"caller": partial(pairs, name, count), "callee": nothing}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        arguments = stack.enter_context(scope(Plan(), folder, record=True)) if record else {}
        value = measure.play(roles, deadline=500, **arguments)["caller"]
    assert isinstance(value, dict)
    return value


def tutorial(name: str, *, traced: bool) -> float:
    """Return the seconds of one healthy run."""
    subject = tutorial_of("run", "", [name], ())[0].subject
    with tempfile.TemporaryDirectory() as folder:
        found, judgement = run(subject, Plan(), folder, recorded=True, trace=traced)
    assert judgement.passed, judgement
    return found.seconds


def main() -> None:
    built = measure.parser(__doc__ or "")
    built.add_argument("--pairs", type=measure.count, default=100, metavar="N", help="pairs of batches of calls")
    built.add_argument("--repeats", type=measure.count, default=9, metavar="N", help="runs of each tutorial, each way")
    options = built.parse_args()
    facts = measure.machine()
    figures: dict[str, Any] = {}
    compared = {}
    for name in CALLS:
        for record in (False, True):
            title = f"{name}{', recorded' if record else ''}"
            samples = calls(name, options.pairs, record=record)
            figures |= {title: measure.spread(samples[False]), f"{title}, traced": measure.spread(samples[True])}
            compared[title] = measure.ratios(samples[True], samples[False])
    rows = [[name, *measure.cells(each, 1)] for name, each in figures.items()]
    for name in TUTORIALS:
        traced = f"{name}, traced"
        ways = {name: partial(tutorial, name, traced=False), traced: partial(tutorial, name, traced=True)}
        runs = measure.interleaved(ways, options.repeats, unit="s")
        figures |= {each: measure.spread(values) for each, values in runs.items()}
        rows += [[f"{each} (s)", *measure.cells(figures[each], 3)] for each in runs]
        compared[name] = measure.ratios(runs[traced], runs[name])
    rows += [[f"{name}: traced / not", *measure.cells(each, 3)] for name, each in compared.items()]
    print(measure.heading(facts) + measure.table(["microseconds per call", "median", "min", "max"], rows))
    measure.write(options.json, "leak_tracing", facts, figures=figures, ratios=compared)


if __name__ == "__main__":
    measure.run(main)
