"""Measure seconds per batch of the pipeline over RPC, beside one process and the best that two processes could do.

    python benchmarks/pipeline.py --json pipeline.json --picture pipeline.png

Ours is the tutorial, unchanged. *One process* trains the same ResNet50 on whole batches in one role with one thread.
*Ideal* is the same micro-batches one after the other in one such role, divided by two processes, times (n + 1) / n:
while the pipeline fills or drains, each of two equal shards has nothing to do in one of n + 1 turns. The shards are not
equal: *limit* is the processor time of the busier one in a batch and an n-th of the other's, because it has to wait for
the other's first micro-batch and for its last.
``--torch`` runs the same shards by `torch.distributed.pipelining` over gloo beside them, with two of its schedules.
``--published`` runs a program of its own beside them, in the same interleaved run.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import measure
import torch
import torch.distributed as dist
from measure import BenchmarkError
from torch import nn, optim
from torch.distributed import pipelining

from reference.cli.table_command import draw
from reference.pipeline import Case, batches, forward, loss_function, make_shard, roles
from reference.trace.progress import log_step
from reference.world import launch


class BatchClock:
    """Notes when each batch ended, as the training role reports it. Runs in the launching process.

    ``pids``: the processes of the two shards, once they are known.
    """

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.worked: list[list[float]] = []
        self.losses: list[float] = []
        self.pids: Collection[int] = ()

    def __call__(self, role: str, record: dict[str, Any]) -> None:
        self.ends.append(time.monotonic())
        self.worked.append([processor_seconds(pid) for pid in self.pids])
        self.losses.append(record["loss"])

    def seconds(self) -> float:
        """The median batch, without the first, whose begin is not reported, and the last, which records everything."""
        return statistics.median(self._durations())

    def near_limit(self, splits: int) -> float:
        """The limit of a batch over what it took: both are means."""
        less, most = sorted(self.shards())
        return (most + less / splits) / statistics.mean(self._durations())

    def _durations(self) -> list[float]:
        return [end - start for start, end in zip(self.ends, self.ends[1:], strict=False)][:-1]

    def shards(self) -> list[float]:
        """The processor seconds of each shard in a batch: the mean over the batches of `seconds`."""
        return [
            (last - first) / (len(self.ends) - 2) for first, last in zip(self.worked[0], self.worked[-2], strict=True)
        ]


def processor_seconds(pid: int) -> float:
    """The processor time of a process, its own and the kernel's for it."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class OneProcess:
    """The function of the only role of the other worlds: both shards, micro-batches one after the other."""

    case: Case

    def __call__(self) -> None:
        case = self.case
        shards = [make_shard(case, half) for half in (1, 2)]
        loss_fn = loss_function(case)
        opt = optim.SGD([p for shard in shards for p in shard.parameters()], lr=case.lr)
        for step, (inputs, labels) in enumerate(batches(case), start=1):
            opt.zero_grad()
            loss = loss_fn(torch.cat([forward(shards, x) for x in inputs.tensor_split(case.num_split)]), labels)
            loss.backward()
            opt.step()
            log_step(step, case.steps, loss.item())


# The schedules of `torch.distributed.pipelining` that give each process one shard.
SCHEDULES = {"GPipe": pipelining.ScheduleGPipe, "1F1B": pipelining.Schedule1F1B}


@dataclass(frozen=True)
class OverGloo:
    """The function of the roles of a pipeline by torch's own library: one shard each. Their RPC has nothing to do."""

    case: Case
    rank: int
    schedule: str
    meeting: str

    def __call__(self) -> None:
        case, loss_fn = self.case, loss_function(self.case)
        dist.init_process_group("gloo", init_method=f"file://{self.meeting}", rank=self.rank, world_size=2)
        shard: Any = make_shard(case, self.rank + 1)
        layers = nn.Sequential(shard.seq, nn.Flatten(), shard.fc) if self.rank else shard.seq
        stage = pipelining.PipelineStage(layers, self.rank, 2, torch.device("cpu"))
        schedule = SCHEDULES[self.schedule](stage, case.num_split, loss_fn=loss_fn)
        opt = optim.SGD(layers.parameters(), lr=case.lr)
        for step, (inputs, labels) in enumerate(batches(case), start=1):
            opt.zero_grad()
            losses: list[torch.Tensor] = []
            if self.rank:
                schedule.step(target=labels, losses=losses)
            else:
                schedule.step(inputs)
            opt.step()
            if self.rank:
                log_step(step, case.steps, torch.stack(losses).mean().item())
        dist.destroy_process_group()


class Setting:
    """One size of batches, measured in every way."""

    def __init__(
        self, case: Case, splits: Sequence[int], deadline: float, published: Path | None, schedules: Sequence[str]
    ) -> None:
        self.case = case
        self.splits = splits
        self.deadline = deadline
        self.published = published
        self.schedules = schedules
        self.losses: dict[str, list[float]] = {}
        self.limits: dict[str, list[float]] = {}

    def ways(self) -> measure.Ways:
        """Each way's measurement: seconds per batch."""
        ways: dict[str, Callable[[], float]] = {"in turn 1": partial(self.alone, 1)}  # one process
        for n in self.splits:
            ways[f"ours {n}"] = partial(self.ours, n)
            ways[f"in turn {n}"] = partial(self.alone, n)
            ways.update({f"{each} {n}": partial(self.over_gloo, each, n) for each in self.schedules})
        if self.published is not None:
            ways.update(published(self.published, self.case, self.splits, self.deadline).ways())
        return ways

    def over_gloo(self, schedule: str, splits: int) -> float:
        case = replace(self.case, num_split=splits)
        with tempfile.TemporaryDirectory(prefix="gloo-") as folder:
            each = partial(OverGloo, case, schedule=schedule, meeting=f"{folder}/store")
            return self.timed(f"{schedule} {splits}", {f"shard{rank + 1}": each(rank) for rank in (0, 1)})

    def ours(self, splits: int) -> float:
        case = replace(self.case, num_split=splits)
        return self.timed(f"ours {splits}", roles(case))

    def alone(self, splits: int) -> float:
        return self.timed(f"in turn {splits}", {"alone": OneProcess(replace(self.case, num_split=splits))})

    def timed(self, way: str, playing: Mapping[str, Callable[[], object]]) -> float:
        clock = BatchClock()
        with launch(playing, deadline=self.deadline, on_progress=clock) as world:
            clock.pids = [*world.pids.values()][-2:]
            measure.returned(world)
        if len(clock.ends) != self.case.steps:
            raise BenchmarkError(f"{way}: {len(clock.ends)} batches were reported, wanted {self.case.steps}")
        self.losses[way] = clock.losses
        if len(playing) > 1 and self.case.device == "cpu":
            self.limits.setdefault(way, []).append(clock.near_limit(int(way.split()[-1])))
            measure.note(
                f"{way}: processor seconds of each shard: {' '.join(f'{each:.2f}' for each in clock.shards())}"
            )
        return clock.seconds()

    def result(self, repeats: int) -> dict[str, Any]:
        case = self.case
        title = f"batch {case.batch_size}, {case.image_w} x {case.image_h}, "
        samples = measure.interleaved(self.ways(), repeats, unit="s a batch", title=title)
        alone = samples["in turn 1"]
        rows = []
        for n in self.splits:
            row = {"splits": n, "ours": measure.spread(samples[f"ours {n}"])}
            row["one process / ours"] = measure.ratios(alone, samples[f"ours {n}"])
            ideal = [each / 2 * (n + 1) / n for each in samples[f"in turn {n}"]]
            row["ideal"] = measure.spread(ideal)
            row["one process / ideal"] = measure.ratios(alone, ideal)
            for way in ("ours", *self.schedules) if self.limits else ():
                row[f"limit / {way}"] = measure.spread(self.limits[f"{way} {n}"])
            for each in self.schedules:
                got, wanted = (self.losses[f"{way} {n}"][1] for way in (each, "ours"))  # later ones amplify rounding
                if not math.isclose(got, wanted, rel_tol=1e-3):
                    raise BenchmarkError(f"{each} {n}: the loss after one update is {got}, wanted {wanted} as ours")
                row[each] = measure.spread(samples[f"{each} {n}"])
                row[f"{each} / ours"] = measure.ratios(samples[f"{each} {n}"], samples[f"ours {n}"])
            if self.published is not None:
                row["published"] = measure.spread(samples[f"published {n}"])
                row["published / ours"] = measure.ratios(samples[f"published {n}"], samples[f"ours {n}"])
            row["equal losses"] = self.losses[f"ours {n}"] == self.losses[f"in turn {n}"]
            rows.append(row)
        sizes = {"batch_size": case.batch_size, "image": [case.image_w, case.image_h]}
        return {**sizes, "one process": measure.spread(alone), "rows": rows}


def published(script: Path, case: Case, splits: Sequence[int], deadline: float) -> measure.Published:
    """The published program: one run of it does one process, then 1, 2, 4 and 8 micro-batches."""
    figures = {f"published {n}": rf"^pipeline chunks={n} ([\d.]+) s/batch" for n in splits}
    return measure.Published(script, deadline * 4, figures, lambda: {"B": case.batch_size, "H": case.image_h})


HEAD = ["splits", "batch", "images", "ours s", "min", "max", "speed-up", "min", "max", "ideal s", "ideal speed-up"]


def rows_of(result: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for row in result["rows"]:
        cells = [str(row["splits"]), str(result["batch_size"]), " x ".join(map(str, result["image"]))]
        cells += measure.cells(row["ours"], 2) + measure.cells(row["one process / ours"], 2)
        cells += [f"{row['ideal']['median']:.2f}", f"{row['one process / ideal']['median']:.2f}"]
        for each in (*SCHEDULES, "published"):
            if each in row:
                cells += [f"{row[each]['median']:.2f}", f"{row[f'{each} / ours']['median']:.2f}"]
        cells += [f"{row[name]['median']:.2f}" for name in row if name.startswith("limit / ")]
        rows.append(cells)
    return rows


def show(results: Sequence[Mapping[str, Any]]) -> None:
    for result in results:
        figures = "  ".join(measure.cells(result["one process"], 2))
        print(f"one process, batch {result['batch_size']}: {figures} s a batch (median, min, max)")
    beside = [each for each in (*SCHEDULES, "published") if each in results[0]["rows"][0]]
    heads = [head for each in beside for head in (f"{each} s", f"{each} / ours")]
    heads += [name for name in results[0]["rows"][0] if name.startswith("limit / ")]
    print(measure.table([*HEAD, *heads], [row for result in results for row in rows_of(result)], words=0))
    equal = all(row["equal losses"] for result in results for row in result["rows"])
    verdict = "the same" if equal else "NOT the same"
    print(f"\nspeed-up: one process / ours, pairwise; losses of ours and of the same in turn: {verdict} bits")


def picture(path: Path, results: Sequence[Mapping[str, Any]]) -> None:
    """Draw the speed-up over the number of micro-batches, one line per size."""
    lines = {}
    for result in results:
        for kind in ("ours", "published"):
            rows = [row for row in result["rows"] if kind in row]
            alone = result["one process"]["median"]
            points = [(row["splits"], alone / row[kind]["median"]) for row in rows]
            if points:
                lines[f"{kind}, batch {result['batch_size']}, {result['image'][0]} x {result['image'][1]}"] = points
    draw(path, lines, x="micro-batches", y="speed-up over one process", title="a pipeline of two shards")


def arguments() -> argparse.Namespace:
    parser = measure.parser(
        "Seconds per batch of ResNet50 in two shards, by number of micro-batches. About 15 minutes."
    )
    add = parser.add_argument
    add("--sizes", type=size, nargs="+", default=[(48, 128), (16, 64)], metavar="BxH", help="images and their side")
    add("--splits", type=measure.count, nargs="+", default=[1, 2, 4, 8], help="numbers of micro-batches")
    add("--batches", type=measure.count, default=3, help="counted batches; two more run, before and after them")
    add("--repeats", type=measure.count, default=3, help="runs of each way and setting")
    add("--deadline", type=measure.seconds, default=300.0, help="seconds after which one run has failed")
    add("--picture", type=measure.writable, metavar="FILE", help="draw the speed-ups there")
    add("--published", type=measure.existing, metavar="FILE", help="a program to run beside; reads B and H")
    add("--torch", nargs="*", choices=[*SCHEDULES], default=[], help="schedules of torch.distributed.pipelining")
    add("--transfer", choices=["cpu", "direct"], default="cpu", help="the case's transfer, with --device cuda")
    measure.add_device(parser)
    return parser.parse_args()


def size(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)x(\d+)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"must be like 48x128, got {text!r}")
    return int(found[1]), int(found[2])


def main() -> None:
    wanted = arguments()
    facts = measure.machine()
    results = []
    for images, side in wanted.sizes:
        sizes = {"steps": wanted.batches + 2, "batch_size": images, "image_w": side, "image_h": side, "num_split": 1}
        case = Case(**sizes, record="ends", device=wanted.device, transfer=wanted.transfer)
        results.append(
            Setting(case, wanted.splits, wanted.deadline, wanted.published, wanted.torch).result(wanted.repeats)
        )
    print(measure.heading(facts))
    show(results)
    options = {name: getattr(wanted, name) for name in ("repeats", "batches", "device", "transfer")}
    measure.write(wanted.json, "pipeline", facts, **options, results=results)
    if wanted.picture is not None:
        picture(wanted.picture, results)


if __name__ == "__main__":
    measure.run(main)
