"""Log one line per training step; a progress bar reads the record's ``step``, ``steps`` and ``loss``."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

# The step, from 0, that this thread is computing; `Recorder.step` sets it.
STEP: ContextVar[int] = ContextVar("STEP", default=0)

logger = logging.getLogger(__name__)


# Told of a role's step: its name, and the step's "step", "steps", "loss" and "time" (`time.monotonic`).
Report = Callable[[str, dict[str, Any]], None]


def log_step(step: int, steps: int, loss: float) -> None:
    """Log one step; ``step`` counts from 1."""
    logger.info("step %d of %d, loss %.6g", step, steps, loss, extra={"step": step, "steps": steps, "loss": loss})


class StepHandler(logging.Handler):
    """Hands each logged step to ``take``: its "step", "steps" and "loss", and its "time" (`time.monotonic`)."""

    def __init__(self, take: Callable[[dict[str, Any]], object]) -> None:
        super().__init__(logging.INFO)
        self.take = take

    def emit(self, record: logging.LogRecord) -> None:
        if hasattr(record, "step"):
            seen = {key: getattr(record, key) for key in ("step", "steps", "loss")}
            self.take({**seen, "time": time.monotonic()})
