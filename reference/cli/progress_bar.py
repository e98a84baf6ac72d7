"""Show the progress of a run: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from reference.trace import progress as steps

# So short runs print no progress, and long runs do not fill a log.
SECONDS_BETWEEN_LINES = 2.0

Report = Callable[[str, dict[str, Any]], None]


class _Newest:
    """Shows each step once, when the first role reports it."""

    def __init__(self, show: Callable[[int, int, float], None]) -> None:
        self.show = show
        self.step = 0

    def __call__(self, role: str, record: dict[str, Any]) -> None:
        if record["step"] > self.step:
            self.step = record["step"]
            self.show(record["step"], record["steps"], record["loss"])


class _FromLog(logging.Handler):
    """Reports the steps that this process itself logs, as a rank under torchrun does."""

    def __init__(self, report: Report) -> None:
        super().__init__(logging.INFO)
        self.report = report

    def emit(self, record: logging.LogRecord) -> None:
        if hasattr(record, "step"):
            self.report("", {key: getattr(record, key) for key in ("step", "steps", "loss")})


@contextmanager
def watch(title: str, *, logged: bool = False) -> Iterator[Report]:
    """Show progress during a block, which gets the function to pass to `launch` as ``on_progress``.

    ``logged``: show also the steps that this process itself logs.
    """
    with _bar(title) if sys.stderr.isatty() else _lines(title) as report:
        handler, level = _FromLog(report), steps.logger.level
        if logged:
            steps.logger.addHandler(handler)
            steps.logger.setLevel(logging.INFO)
        try:
            yield report
        finally:
            steps.logger.removeHandler(handler)
            steps.logger.setLevel(level)


@contextmanager
def _lines(title: str) -> Iterator[Report]:
    said = time.monotonic()

    def show(step: int, total: int, loss: float) -> None:
        nonlocal said
        if time.monotonic() - said >= SECONDS_BETWEEN_LINES:
            said = time.monotonic()
            print(f"{title}: step {step} of {total}, loss {loss:.6g}", file=sys.stderr, flush=True)

    yield _Newest(show)


@contextmanager
def _bar(title: str) -> Iterator[Report]:
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

        yield _Newest(show)
