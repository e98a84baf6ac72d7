"""Log one line per training step; a progress bar reads the record's ``step``, ``steps`` and ``loss``."""

from __future__ import annotations

import logging
from contextvars import ContextVar

# The step, from 0, that this thread is computing; `Recorder.step` sets it.
STEP: ContextVar[int] = ContextVar("STEP", default=0)

logger = logging.getLogger(__name__)


def log_step(step: int, steps: int, loss: float) -> None:
    """Log one step; ``step`` counts from 1."""
    logger.info("step %d of %d, loss %.6g", step, steps, loss, extra={"step": step, "steps": steps, "loss": loss})
