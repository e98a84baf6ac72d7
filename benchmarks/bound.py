"""Measure how often the bound of natural cases is wrong: false alarms over correct runs, misses of wrong elements.

    python benchmarks/bound.py --runs 1000 --json bound.json

A correct run is one more twin, whose sums are all permuted by a seed that no twin of the bound has. A wrong run is the
same with one element off, of a tensor drawn at random, by a part of that tensor's scale (its root mean square): from
1 % to 100 % in float32, from 1e-10 on in float64. ``undecided`` are runs about which the bound gives no verdict:
rounding decided an action, or is too large in the last parameters.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from reference import load
from reference.rounding.bound import Undecided, bound_of, twin_errors
from reference.rounding.reordering import REORDERED, reordered, twins_for
from reference.trace import Case, Trace, TraceError
from reference.verify.verify import changes

_IMAGES = {"image_w": 8, "image_h": 8, "batch_size": 4, "num_classes": 10, "steps": 3}
_CONVNET = {"model": "convnet", **_IMAGES}
_FLOAT64, _ENDS = {"dtype": "float64"}, {"record": "ends"}
CASES: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("parameter_server", {"steps": 20}),
    ("batch_parameter_server", _CONVNET),
    ("sharded_parameter_server", {"model": "mlp", **_IMAGES}),
    ("rnn", {"steps": 3}),
    ("hybrid_ddp", {"steps": 5}),
    ("reinforce", {"steps": 2}),
    ("batch_reinforce", {"steps": 2, "n_steps": 20}),
    ("parameter_server", {"steps": 20, **_FLOAT64}),
    ("batch_parameter_server", {**_CONVNET, **_FLOAT64}),
    ("sharded_parameter_server", {"model": "mlp", **_IMAGES, **_FLOAT64}),
    ("hybrid_ddp", {"steps": 5, **_FLOAT64}),
    ("reinforce", {"steps": 2, **_FLOAT64}),
    ("parameter_server", {"steps": 20, **_ENDS}),
    ("batch_parameter_server", {**_CONVNET, **_ENDS}),
    ("reinforce", {"steps": 2, **_ENDS}),
    ("batch_reinforce", {"steps": 2, "n_steps": 20, **_ENDS}),
)
# The smallest error of one element, in parts of its tensor's scale, by its power of ten.
SMALLEST = {"float32": -2, "float64": -10}


def spoiled(run: Trace, draws: random.Random) -> tuple[Trace, str, float]:
    """Spoil one element of a run. Returns the run, the tensor's name, and the error in parts of its scale."""
    floats = [n for n, t in run.tensors.items() if t.is_floating_point() and t.numel() and bool(t.any())]
    case: Any = run.case
    name, part = draws.choice(floats), 10 ** draws.uniform(SMALLEST[case.dtype], 0)
    tensor = run.tensors[name].clone()
    scale = float(tensor.double().square().mean().sqrt())
    tensor.view(-1)[draws.randrange(tensor.numel())] += draws.choice((-1, 1)) * part * scale
    return Trace(run.case, {**run.tensors, name: tensor}), name, part


def rates(case: Case, runs: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure one case: its worst ratio, false alarms, misses and runs without a verdict."""
    train, draws = load(case.tutorial()).train_locally, random.Random(0)
    plain = train(case)
    start = time.perf_counter()
    each, exact = twins_for(plain, plain, train)
    twins = list(each)
    seconds = time.perf_counter() - start
    errors = twin_errors(twins, exact)
    alarms, undecided, missed, worst = 0, 0, [], 0.0
    for seed in range(REORDERED, REORDERED + runs):
        run = reordered(train, case, plain, seed)
        try:
            bound = bound_of(run, errors)
        except Undecided:
            undecided += 1
            continue
        except TraceError:
            alarms += 1
            continue
        alarms += bound.verdict == "wrong"
        undecided += bound.verdict == "unknown"
        worst = max(worst, bound.worst[1])
        wrong, name, part = spoiled(run, draws)
        one, others, truth = _only(name, wrong, twins, exact)
        if bound.holds and bound_of(one, twin_errors(others, truth)).holds:
            missed.append((name, part))
    say(
        f"{case.tutorial()} {changes(case)}: {alarms} false alarms, {undecided} undecided, {len(missed)} misses"
        f" of {runs}; worst {worst:.2f}; {seconds:.1f} s"
    )
    found = {"runs": runs, "alarms": alarms, "undecided": undecided, "missed": missed, "worst": worst}
    return {**found, "twins_seconds": seconds}


def _only(name: str, run: Trace, twins: list[Trace], exact: Trace) -> tuple[Trace, list[Trace], Trace]:
    """Keep one tensor of a run, its twins and the float64 twin: only that one has changed."""
    one, *others, truth = (replace(each, tensors={name: each.tensors[name]}) for each in (run, *twins, exact))
    return one, others, truth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--runs", type=int, default=1000, help="number of correct runs, and of wrong ones, over all cases"
    )
    parser.add_argument("--json", type=Path, help="write the results there")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    each = max(1, round(arguments.runs / len(CASES)))
    cases = [load(name).Case(**fields) for name, fields in CASES]
    found = {str(case): rates(case, each, lambda line: print(line, flush=True)) for case in cases}
    runs, alarms, undecided = (sum(result[key] for result in found.values()) for key in ("runs", "alarms", "undecided"))
    missed = sum(len(result["missed"]) for result in found.values())
    print(f"all: {alarms} false alarms, {undecided} undecided, {missed} misses of {runs}")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
