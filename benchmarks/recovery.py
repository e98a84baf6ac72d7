"""Measure what checkpoints and restarts cost: to save and to read one, to go on after a kill, and each step.

    python benchmarks/recovery.py --json recovery.json

1. The state of the batch server's ResNet50 (parameters, momentum, buffers) is saved and resumed, beside safetensors,
   which writes the same tensors with one fsync, and reads them.
2. The batch server with two trainers is killed after a step. The seconds until the end of its next life's first step.
3. A step of that world with a checkpoint after each, beside one without. Both are timed by their progress reports.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import measure
import torch
from safetensors.torch import load_file, save_file

from reference.batch_parameter_server import Case, initial_model, roles, sgd
from reference.trace import checkpoint
from reference.trace.checkpoint import Checkpoints
from reference.world import World, launch


class OneState:
    """The state of a model and its optimizer, in a folder, in both ways."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.model = initial_model(case)
        self.optimizer = sgd(case, self.model)
        for parameter in self.model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        self.optimizer.step()  # it has momentum from then on
        momentum = [each["momentum_buffer"] for each in self.optimizer.state.values()]
        self.tensors = {**self.model.state_dict(), **{f"momentum{n}": each for n, each in enumerate(momentum)}}
        self.file, self.steps = folder / "beside.safetensors", 0
        self.checkpoints = Checkpoints(folder / "steps", ["ps"], resume=True)
        self.checkpoints("ps")

        self.mib = sum(each.nbytes for each in self.tensors.values()) / 2**20

    def save(self) -> float:
        self.steps += 1
        begin = time.perf_counter()
        checkpoint.save(self.steps, model=self.model, optimizer=self.optimizer)
        return time.perf_counter() - begin

    def resume(self) -> float:
        """From what a new life does first, which finds out whether the step is whole, until the state is there."""
        begin = time.perf_counter()
        self.checkpoints("ps")
        found = checkpoint.resume(model=self.model, optimizer=self.optimizer)
        assert found == self.steps
        return time.perf_counter() - begin

    def write(self) -> float:
        begin = time.perf_counter()
        save_file(self.tensors, self.file)
        with self.file.open("rb") as file:
            os.fsync(file.fileno())
        return time.perf_counter() - begin

    def read(self) -> float:
        begin = time.perf_counter()
        for name, tensor in load_file(self.file).items():
            self.tensors[name].copy_(tensor)
        return time.perf_counter() - begin


class Reports:
    """When each step was reported first, in the launching process; after step ``kill`` that kills a trainer, once."""

    def __init__(self, kill: int | None = None) -> None:
        self.kill = kill
        self.world: World | None = None
        self.times: dict[int, float] = {}
        self.killed = self.next = 0.0

    def __call__(self, role: str, record: dict[str, Any]) -> None:
        now, step = time.monotonic(), record["step"]
        self.times.setdefault(step, now)
        if self.world is not None and step == self.kill and not self.killed:
            os.kill(self.world.pids["trainer1"], signal.SIGKILL)
            self.killed = now
        elif self.world is not None and self.world.life > 1:
            self.next = self.next or now


def world(case: Case, deadline: float, *, saves: bool, kill: int | None = None) -> Reports:
    """Play the case, and return its reports. Raises BenchmarkError."""
    reports, played = Reports(kill), roles(case)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        checkpoints = Checkpoints.of_case(Path(folder), case, [*played], resume=True) if saves else None
        again: dict[str, Any] = {"checkpoints": checkpoints, "restarts": int(kill is not None)}
        with launch(played, deadline=deadline, on_progress=reports, **again) as reports.world:
            measure.returned(reports.world)
    if (kill is None) != (reports.world.life == 1) or (kill is None) != (reports.next == 0):
        raise measure.BenchmarkError(f"the world had {reports.world.life} lives")
    return reports


def step_seconds(case: Case, deadline: float, saves: bool) -> float:
    times = world(case, deadline, saves=saves).times
    return median(times[step] - times[step - 1] for step in range(2, case.steps + 1))


def restart_seconds(case: Case, deadline: float) -> float:
    reports = world(case, deadline, saves=True, kill=case.steps // 2)
    return reports.next - reports.killed


def main() -> None:
    built = measure.parser(__doc__ or "")
    built.add_argument("--repeats", type=measure.count, default=7, metavar="N", help="samples of each way")
    built.add_argument("--model", choices=["resnet50", "convnet", "mlp"], default="resnet50", help="of the server")
    built.add_argument("--steps", type=partial(measure.count, least=4), default=6, metavar="N", help="of each world")
    built.add_argument("--deadline", type=measure.seconds, default=300.0, metavar="X", help="seconds for each world")
    options = built.parse_args()
    facts = measure.machine()
    size: dict[str, Any] = {"model": options.model, "image_w": 64, "image_h": 64, "batch_size": 4, "record": "ends"}
    case, four = Case(steps=options.steps, trainers=2, **size), Case(steps=options.steps, trainers=3, **size)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:  # not in memory, as /tmp may be
        state = OneState(case, Path(folder))
        files = {"save": state.save, "safetensors with fsync": state.write, "resume": state.resume}
        files["safetensors read"] = state.read
        samples = measure.interleaved(files, options.repeats, unit="s")
    step, limit = partial(step_seconds, case), options.deadline
    step(limit, False)  # starts the forkserver
    worlds = {"step, --every 1": partial(step, limit, True), "step, no checkpoints": partial(step, limit, False)}
    worlds["kill to next step, 4 roles"] = partial(restart_seconds, four, limit)
    samples |= measure.interleaved(worlds, options.repeats, unit="s")
    pairs = [("save", "safetensors with fsync"), ("resume", "safetensors read")]
    pairs.append(("step, --every 1", "step, no checkpoints"))
    ratios = {f"{a} / {b}": measure.ratios(samples[a], samples[b]) for a, b in pairs}
    figures = {name: measure.spread(each) for name, each in samples.items()}
    rows = [[name, *measure.cells(each, 3)] for name, each in (figures | ratios).items()]
    head = [f"seconds, {options.model}, {state.mib:.0f} MiB", "median", "min", "max"]
    print(measure.heading(facts) + measure.table(head, rows))
    measure.write(options.json, "recovery", facts, mib=state.mib, seconds=figures, ratios=ratios)


if __name__ == "__main__":
    measure.run(main)
