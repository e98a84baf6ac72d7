"""Functions of roles in the worlds for properties. It imports little, because every role of every such world imports
it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch.distributed.rpc as rpc


class _OneThread(rpc.TensorPipeRpcBackendOptions):
    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "num_worker_threads": 1})


def prepare(role: str, then: Callable[[str], object] | None = None) -> None:
    """A ``before``: an idle world gives all its roles the same options, and an agent's bits need one RPC thread."""
    if role == "agent":
        rpc.TensorPipeRpcBackendOptions = _OneThread  # type: ignore[misc]
    if then is not None:
        then(role)


def forget_to_divide(role: str) -> None:
    """A bug: the batch server takes the sum for the mean."""
    batch: Any = importlib.import_module("reference.batch_parameter_server")
    batch.mean = lambda total, others: sum(others, total)
