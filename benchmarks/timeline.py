"""Show when each shard of the pipeline computes: one line per shard and direction, and how much overlaps.

    python benchmarks/timeline.py --size 48x128 --split 4

Shards are timed by hooks on their layers, put there in each role before RPC starts. The last batch but one is drawn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import measure
import torch
import torch.distributed.rpc as rpc
from pipeline import size

from reference.pipeline import WORKERS, Case, ResNetShard1, ResNetShard2, run_master
from reference.roles import serve
from reference.world import launch

COLUMNS = 100


@dataclass(frozen=True)
class Span:
    """One micro-batch in one shard and direction; seconds on the machine's clock."""

    role: str
    way: str
    number: int
    start: float
    end: float


# In each worker: its spans so far, and when the gradient of each micro-batch's output came.
_spans: list[Span] = []
_began: dict[int, float] = {}


def note_spans(role: str) -> None:
    """Runs in every role before RPC starts."""
    kind: Any = ResNetShard1 if role == WORKERS[0] else ResNetShard2
    original: Callable[..., None] = kind.__init__

    def noted(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        numbers = count()
        calls: list[tuple[int, float]] = []

        def before(_: object, args: tuple[torch.Tensor]) -> None:
            number = next(numbers)
            calls.append((number, time.monotonic()))

            def ended(_: torch.Tensor) -> None:
                _spans.append(Span(role, "backward", number, _began[number], time.monotonic()))

            args[0].requires_grad_().register_hook(ended)

        def after(_: object, args: tuple[torch.Tensor], out: torch.Tensor) -> None:
            number, start = calls.pop()
            _spans.append(Span(role, "forward", number, start, time.monotonic()))
            out.register_hook(lambda _: _began.update({number: time.monotonic()}))

        self.seq.register_forward_pre_hook(before)
        self.seq.register_forward_hook(after)

    kind.__init__ = noted


def spans() -> list[Span]:
    """Runs on a worker."""
    return _spans


@dataclass(frozen=True)
class Master:
    """The master's function: run the tutorial, then collect the spans."""

    case: Case

    def __call__(self) -> list[Span]:
        run_master(self.case)
        return [span for name in WORKERS for span in rpc.rpc_sync(name, spans)]


def batch(found: Sequence[Span], case: Case, step: int) -> list[Span]:
    return [span for span in found if span.number // case.num_split == step]


def draw(found: Sequence[Span]) -> str:
    """Draw lines in which a column is the same time in every line, and a digit the micro-batch computed then."""
    start, end = min(span.start for span in found), max(span.end for span in found)
    scale = COLUMNS / (end - start)
    first = min(span.number for span in found)
    lines = []
    for way in ("forward", "backward"):
        for role in WORKERS:
            line = [" "] * (COLUMNS + 1)
            for span in sorted((s for s in found if (s.role, s.way) == (role, way)), key=lambda s: s.start):
                for column in range(int((span.start - start) * scale), int((span.end - start) * scale) + 1):
                    line[column] = "+" if line[column] != " " else str((span.number - first) % 10)
            lines.append(f"{role} {way:<8} |{''.join(line)}|")
    return "\n".join([*lines, f"{end - start:.2f} s in all; + is several at once"])


def overlap(found: Sequence[Span], way: str) -> dict[str, float]:
    """Seconds from the first start to the last end, and the seconds that each shard worked."""
    these = [span for span in found if span.way == way]
    wall = max(span.end for span in these) - min(span.start for span in these)
    return {"wall": wall, **{role: busy([s for s in these if s.role == role]) for role in WORKERS}}


def busy(found: Sequence[Span]) -> float:
    """Seconds in which at least one of these spans ran."""
    total, until = 0.0, 0.0
    for span in sorted(found, key=lambda s: s.start):
        total += max(0.0, span.end - max(span.start, until))
        until = max(until, span.end)
    return total


def main() -> None:
    parser = measure.parser("When each shard of the pipeline computes.")
    parser.add_argument("--size", type=size, default=(48, 128), metavar="BxH", help="images and their side")
    parser.add_argument("--split", type=measure.count, default=4, help="micro-batches")
    wanted = parser.parse_args()
    images, side = wanted.size
    case = Case(steps=4, batch_size=images, image_w=side, image_h=side, num_split=wanted.split, record="ends")
    facts = measure.machine()
    playing: Any = {"master": Master(case), **dict.fromkeys(WORKERS, serve)}
    with launch(playing, deadline=600, before=note_spans, options={"num_worker_threads": 128}) as world:
        found = batch(measure.returned(world)["master"], case, case.steps - 2)  # type: ignore[arg-type]
    print(measure.heading(facts) + draw(found))
    figures = {way: overlap(found, way) for way in ("forward", "backward")}
    for way, seconds in figures.items():
        print(f"{way}: " + ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items()))
    measure.write(wanted.json, "timeline", facts, **figures)


if __name__ == "__main__":
    measure.run(main)
