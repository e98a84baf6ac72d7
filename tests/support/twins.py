"""Twins for tests: without the proof that they are exact, and with workers by turns."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch

from reference import load, parameter_server
from reference.trace import Case, Trace
from reference.training.worker_order import by_turns


def unproven(case: Case, replay: Trace | None = None) -> Trace:
    """Run the twin without its proof."""
    twin: Callable[..., Trace] = inspect.unwrap(load(case.tutorial()).train_locally)
    return twin(case, replay)


def turns(case: parameter_server.Case) -> Trace:
    """Make a replay for the twin in which workers take turns."""
    return Trace(case, {"order/events": torch.tensor(by_turns(case.workers, case.steps))})
