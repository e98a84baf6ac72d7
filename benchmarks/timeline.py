"""Draw when each shard of the pipeline computes which micro-batch, forward and backward, in one batch.

    python benchmarks/timeline.py --picture docs/timeline.png

The tutorial runs unchanged, but each shard notes when a turn begins and ends, when the gradient of a micro-batch's
output arrives, and when that of its first layer is computed. It prints how much of the batch each shard computes.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import measure
import torch
from measure import BenchmarkError

from reference.pipeline import WORKERS, Case, ResNetShard1, ResNetShard2, roles
from reference.rpc.shard import Shard
from reference.world import launch

# A role, a micro-batch of all so far, what it does, and when that begins and ends (`time.monotonic`, seconds).
Span = tuple[str, int, str, float, float]

COLOURS = {"forward": "tab:blue", "backward": "tab:orange"}


def note_spans(folder: Path, role: str) -> None:
    """Runs in each role before its start: let its shard write its spans into a file of the folder."""
    file = (folder / f"{role}.jsonl").open("a", buffering=1)
    arrived: dict[int, float] = {}
    hooks: dict[int, Any] = {}

    def note(number: int, what: str, begin: float) -> None:
        file.write(json.dumps((role, number, what, begin, time.monotonic())) + "\n")

    def computed(number: int, _: torch.Tensor) -> None:
        hooks.pop(number).remove()  # the first micro-batch's is a parameter itself, and stays
        note(number, "backward", arrived[number])

    turn: Callable[[Shard, int], Any] = Shard.turn

    @contextmanager
    def noted_turn(self: Shard, number: int) -> Iterator[None]:
        with turn(self, number):
            begin = time.monotonic()
            hooks[number] = next(self.parameters()).register_hook(partial(computed, number))
            yield
            note(number, "forward", begin)

    def noted_forward(forward: Callable[..., torch.Tensor], self: Shard, x_rref: Any, number: int) -> torch.Tensor:
        out = forward(self, x_rref, number)
        out.register_hook(lambda _: arrived.setdefault(number, time.monotonic()) and None)
        return out

    Shard.turn = noted_turn  # type: ignore[method-assign]
    for kind in (ResNetShard1, ResNetShard2):
        original = kind.forward
        kind.forward = lambda self, x, n, f=original: noted_forward(f, self, x, n)  # type: ignore[method-assign]


def spans_of(case: Case, deadline: float) -> list[Span]:
    """Train, and return the spans of the last batch but one."""
    with tempfile.TemporaryDirectory(prefix="timeline-") as folder:
        with launch(roles(case), deadline=deadline, before=partial(note_spans, Path(folder))) as world:
            measure.returned(world)
        lines = [line for role in WORKERS for line in (Path(folder) / f"{role}.jsonl").read_text().splitlines()]
    first = case.num_split * (case.steps - 2)
    found: list[Span] = [(r, n - first, what, b, e) for r, n, what, b, e in map(json.loads, lines) if n - first >= 0]
    spans = [each for each in found if each[1] < case.num_split]
    if len(spans) != 4 * case.num_split:
        raise BenchmarkError(f"{len(spans)} spans, wanted {4 * case.num_split}")
    return spans


def covered(spans: list[Span], role: str) -> float:
    """The seconds in which a role computes something: its backward passes may overlap."""
    total, until = 0.0, 0.0
    for _, _, _, begin, end in sorted((each for each in spans if each[0] == role), key=lambda each: each[3]):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def draw(path: Path, settings: Mapping[int, list[Span]]) -> None:
    """Draw one chart for each number of micro-batches, with a lane for each shard."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1.6 * len(settings)), layout="constrained")
    charts = figure.subplots(len(settings), sharex=True, squeeze=False)[:, 0]
    for axes, (splits, spans) in zip(charts, settings.items(), strict=True):
        zero = min(begin for _, _, _, begin, _ in spans)
        for role, number, what, begin, end in spans:
            lane = WORKERS.index(role)
            axes.barh(lane, end - begin, left=begin - zero, color=COLOURS[what], edgecolor="white", alpha=0.8)
            axes.text((begin + end) / 2 - zero, lane, str(number + 1), ha="center", va="center", fontsize=7)
        axes.set_yticks(range(len(WORKERS)), [f"shard {lane + 1}" for lane in range(len(WORKERS))])
        axes.invert_yaxis()
        axes.set_title(f"{splits} micro-batch{'es' if splits > 1 else ''}", fontsize=9)
    charts[-1].set_xlabel("seconds; forward is blue, backward is orange")
    figure.savefig(path)


def main() -> None:
    built = measure.parser(__doc__ or "")
    built.add_argument("--splits", type=measure.count, nargs="+", default=[1, 4, 8], help="numbers of micro-batches")
    built.add_argument("--images", type=measure.count, default=48, help="images of a batch")
    built.add_argument("--side", type=measure.count, default=128, help="width and height of an image in pixels")
    built.add_argument("--deadline", type=measure.seconds, default=300.0, help="seconds after which a run has failed")
    built.add_argument("--picture", type=measure.writable, metavar="FILE", help="draw the spans there")
    wanted = built.parse_args()
    facts = measure.machine()
    sizes: dict[str, Any] = {"batch_size": wanted.images, "image_w": wanted.side, "image_h": wanted.side}
    settings = {n: spans_of(Case(steps=3, num_split=n, record="ends", **sizes), wanted.deadline) for n in wanted.splits}
    rows = []
    for splits, spans in settings.items():
        whole = max(end for *_, end in spans) - min(begin for _, _, _, begin, _ in spans)
        rows.append([str(splits), f"{whole:.2f}", *(f"{covered(spans, role) / whole:.0%}" for role in WORKERS)])
    head = ["micro-batches", "s from the first turn to the last gradient", "shard 1 computes", "shard 2 computes"]
    print(measure.heading(facts) + measure.table(head, rows, words=0))
    measure.write(wanted.json, "timeline", facts, spans=settings)
    if wanted.picture is not None:
        draw(wanted.picture, settings)


if __name__ == "__main__":
    measure.run(main)
