"""Show the progress of a run: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from reference.trace import progress as steps
from reference.trace.progress import Report

# So short runs print no progress, and long runs do not fill a log.
SECONDS_BETWEEN_LINES = 2.0

Show = Callable[[int, int, float], None]


def has_bars() -> bool:
    """Whether standard error is a terminal on which rich draws a bar."""
    return sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


@contextmanager
def watch(title: str, *, logged: bool = False) -> Iterator[Report]:
    """Show progress during a block, which gets the function to pass to `launch` as ``on_progress``.

    Each step is shown once, when the first role reports it. ``logged``: show also the steps that this process itself
    logs, as a rank under torchrun does.
    """
    newest = 0

    def report(role: str, record: dict[str, Any]) -> None:
        nonlocal newest
        if record["step"] > newest:
            newest = record["step"]
            show(record["step"], record["steps"], record["loss"])

    # Other ranks write to the same terminal, and each bar would erase theirs.
    shown = _bar(title) if has_bars() and not logged else _lines(title)
    own = _heard(steps.logger, steps.StepHandler(partial(report, ""))) if logged else nullcontext()
    # Which lives a world has: one line at the end and one at the begin of each.
    with shown as show, own, _heard(logging.getLogger("reference.world.world"), logging.StreamHandler()):
        yield report


@contextmanager
def _heard(logger: logging.Logger, handler: logging.Handler) -> Iterator[None]:
    """Handle what a logger says from INFO on, in this block."""
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def _lines(title: str) -> Iterator[Show]:
    said = time.monotonic()

    def show(step: int, total: int, loss: float) -> None:
        nonlocal said
        if time.monotonic() - said >= SECONDS_BETWEEN_LINES:
            said = time.monotonic()
            print(f"{title}: step {step} of {total}, loss {loss:.6g}", file=sys.stderr, flush=True)

    yield show


@contextmanager
def _bar(title: str) -> Iterator[Show]:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"))
    with Progress(
        *columns,
        TimeRemainingColumn(),
        TextColumn("loss {task.fields[loss]}"),
        console=Console(stderr=True),
        transient=True,
    ) as bars:
        bar = bars.add_task(title, total=None, count="", loss="-")

        def show(step: int, total: int, loss: float) -> None:
            bars.update(bar, completed=step, total=total, count=f"{step}/{total}", loss=f"{loss:.6g}")

        yield show
