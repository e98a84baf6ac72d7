"""Measure samples per second of the batch-updating parameter server with ResNet50, beside DDP over gloo.

    python benchmarks/batch_parameter_server.py --json batch.json

Ours is the tutorial, unchanged. DDP does the same work (model, batches, loss, optimizer) in roles of the same kind,
with RPC up but idle: same start of processes, memory settings and one thread each. Both are timed from outside by
their progress reports. ``--published`` runs a program of its own beside them, in the same interleaved run.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import measure
import torch.distributed as dist
from measure import BenchmarkError
from torch.nn.parallel import DistributedDataParallel

from reference.batch_parameter_server import Case, Trainer, initial_model, roles, sgd, trainer_names
from reference.trace.progress import log_step
from reference.world import launch

# The lines that the published program prints, by the names of the figures here.
PUBLISHED = {"published": "published batch parameter server", "published DDP": "DDP over gloo"}

# The largest relative difference of the two losses after the first update. DDP adds gradients in another order,
# which is 1e-5 here from three trainers on; later rounds amplify it, by a factor of thousands in each.
LOSS_TOLERANCE = 0.01
COMPARED_ROUNDS = 2

Losses = dict[tuple[str, int], float]


class RoundClock:
    """Notes when each round ends, which is when the last trainer reports it. Runs in the launching process."""

    def __init__(self, trainers: int) -> None:
        self.trainers = trainers
        self.ends: dict[int, float] = {}
        self.losses: Losses = {}

    def __call__(self, role: str, record: dict[str, Any]) -> None:
        now, step = time.monotonic(), record["step"]
        self.losses[role, step] = record["loss"]
        if sum(reported == step for _, reported in self.losses) == self.trainers:
            self.ends[step] = now

    def seconds(self) -> list[float]:
        """The seconds of each round except the first, whose begin is not reported, and the last, in which ours records
        the parameters."""
        return [self.ends[step] - self.ends[step - 1] for step in sorted(self.ends)[1:-1]]


@dataclass(frozen=True)
class DdpTrainer:
    """The function of a role of the DDP world: the tutorial's trainer, with its gradients averaged by DDP."""

    case: Case
    name: str
    rendezvous: str
    deadline: float

    def __call__(self) -> None:
        dist.init_process_group(
            "gloo",
            init_method=self.rendezvous,
            rank=trainer_names(self.case).index(self.name),
            world_size=self.case.trainers,
            timeout=timedelta(seconds=self.deadline),
        )
        try:
            self.train()
        finally:
            dist.destroy_process_group()

    def train(self) -> None:
        trainer = Trainer(self.case, self.name)
        model = DistributedDataParallel(initial_model(self.case).to(trainer.device))
        optimizer = sgd(self.case, model)
        for step, (inputs, labels) in enumerate(trainer.get_next_batch(), start=1):
            optimizer.zero_grad()
            loss = trainer.gradients(model, inputs, labels)
            optimizer.step()
            log_step(step, self.case.steps, float(loss))


def ddp_roles(case: Case, folder: str, deadline: float) -> dict[str, Callable[[], object]]:
    rendezvous = f"file://{folder}/gloo"
    return {name: DdpTrainer(case, name, rendezvous, deadline) for name in trainer_names(case)}


class Setting:
    """One number of trainers and one batch size, measured in every way."""

    def __init__(self, case: Case, deadline: float, published: Path | None) -> None:
        self.case = case
        self.deadline = deadline
        self.published = published
        self.rounds: dict[str, list[list[float]]] = {"ours": [], "DDP": []}
        self.losses: dict[str, Losses] = {}

    def ways(self) -> measure.Ways:
        """Each way's measurement: samples per second."""
        ways: dict[str, Callable[[], float]] = {"ours": self.ours, "DDP": self.ddp}
        if self.published is not None:
            ways.update(published(self.published, self.case, self.deadline).ways())
        return ways

    def ours(self) -> float:
        return self.timed("ours", roles(self.case))

    def ddp(self) -> float:
        with tempfile.TemporaryDirectory(prefix="ddp-") as folder:
            return self.timed("DDP", ddp_roles(self.case, folder, self.deadline))

    def timed(self, way: str, playing: Mapping[str, Callable[[], object]]) -> float:
        """Samples per second over all counted rounds of one world."""
        clock = RoundClock(self.case.trainers)
        with launch(playing, deadline=self.deadline, on_progress=clock) as world:
            measure.returned(world)
        rounds = clock.seconds()
        if len(rounds) != self.case.steps - 2:
            raise BenchmarkError(f"{way}: {len(rounds)} counted rounds were reported, wanted {self.case.steps - 2}")
        self.rounds[way].append(rounds)
        self.losses[way] = clock.losses
        return self.case.trainers * self.case.batch_size * len(rounds) / sum(rounds)

    def result(self, repeats: int) -> dict[str, Any]:
        """Measure, and compare the losses of ours and of DDP."""
        case = self.case
        title = f"{case.trainers} trainers, batch {case.batch_size}, "
        samples = measure.interleaved(self.ways(), repeats, unit="samples/s", title=title)
        return {
            "trainers": case.trainers,
            "batch_size": case.batch_size,
            "samples_per_second": {name: measure.spread(each) for name, each in samples.items()},
            "ours/": {name: measure.ratios(samples["ours"], each) for name, each in samples.items() if name != "ours"},
            "seconds_of_rounds": self.rounds,
            "loss_difference": loss_difference(self.losses["ours"], self.losses["DDP"]),
        }


def loss_difference(a: Losses, b: Losses) -> float:
    """The largest relative difference of any trainer's loss in the rounds that are compared."""
    keys = [key for key in b if key[1] <= COMPARED_ROUNDS]
    return max(abs(a[key] - b[key]) / abs(b[key]) for key in keys)


def published(script: Path, case: Case, deadline: float) -> measure.Published:
    """The published program, which prints the samples per second of itself and of its own DDP."""
    line = r"^{}: \d+ trainers, [\d.]+ s a round, ([\d.]+) samples/s"
    variables = {"N": case.trainers, "B": case.batch_size, "H": case.image_h, "ROUNDS": case.steps - 2}
    figures = {name: line.format(re.escape(printed)) for name, printed in PUBLISHED.items()}
    return measure.Published(script, deadline, figures, lambda: variables)


def rows_of(result: Mapping[str, Any]) -> list[list[str]]:
    """One row per way; ours has no ratio to itself."""
    rows = []
    for name, rates in result["samples_per_second"].items():
        ratio = result["ours/"].get(name)
        last = ["", "", ""] if ratio is None else measure.cells(ratio, 2)
        rows.append([name, str(result["trainers"]), str(result["batch_size"]), *measure.cells(rates, 1), *last])
    return rows


def show(results: Sequence[Mapping[str, Any]]) -> None:
    columns = ["trainers", "batch", "median", "min", "max", "ours / this", "min", "max"]
    rows = [row for result in results for row in rows_of(result)]
    print(measure.table(["samples per second", *columns], rows))
    worst = max(result["loss_difference"] for result in results)
    verdict = "the same work" if worst <= LOSS_TOLERANCE else "NOT the same work"
    print(f"\nratios are pairwise; after one update, losses of ours and DDP differ by {worst:.1e}: {verdict}")


def arguments() -> argparse.Namespace:
    parser = measure.parser(
        "Samples per second of ResNet50 training: the batch-updating parameter server beside DDP over gloo. "
        "About 6 minutes on 2 cores, with --published about twice that."
    )
    add, several = parser.add_argument, partial(measure.count, least=2)
    add("--trainers", type=measure.count, nargs="+", default=[1, 2, 4], help="numbers of trainers")
    add("--batch-size", type=several, nargs="+", default=[4, 20], help="images of a trainer's batch, at least 2")
    add("--rounds", type=several, default=6, help="counted rounds, at least 2; two more run, before and after")
    add("--repeats", type=measure.count, default=3, help="runs of each way and setting")
    add(
        "--image-side",
        type=measure.count,
        default=64,
        help="width and height of an image in pixels; where small, losses say little",
    )
    add("--deadline", type=measure.seconds, default=180.0, help="seconds after which one run has failed")
    add("--published", type=measure.existing, metavar="FILE", help="a program to run beside; reads N, B, H and ROUNDS")
    measure.add_device(parser)
    return parser.parse_args()


def settings(wanted: argparse.Namespace) -> list[Setting]:
    """Combine every batch size with every number of trainers."""
    side = {"image_w": wanted.image_side, "image_h": wanted.image_side, "device": wanted.device}
    cases = [
        Case(trainers=trainers, steps=wanted.rounds + 2, batch_size=batch_size, record="ends", **side)
        for batch_size in wanted.batch_size
        for trainers in wanted.trainers
    ]
    return [Setting(case, wanted.deadline, wanted.published) for case in cases]


def main() -> None:
    wanted = arguments()
    facts = measure.machine()
    results = [setting.result(wanted.repeats) for setting in settings(wanted)]
    print(measure.heading(facts))
    show(results)
    options = {name: getattr(wanted, name) for name in ("repeats", "rounds", "image_side", "device")}
    measure.write(wanted.json, "batch_parameter_server", facts, **options, results=results)


if __name__ == "__main__":
    measure.run(main)
