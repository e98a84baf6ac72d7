"""Twins for tests: without the proof that they are exact."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from reference import load
from reference.trace import Case, Trace


def unproven(case: Case, replay: Trace | None = None) -> Trace:
    """Run the twin without its proof."""
    twin: Callable[..., Trace] = inspect.unwrap(load(case.tutorial()).train_locally)
    return twin(case, replay)
