"""The trace of ``rref_dataflow``: 2 (a + b) + 1, and how many payloads pass each worker.

Draws: a, whole numbers from 1 to 1000, (side, side), from a generator of ``worker1/STEP``; b from ``worker2/STEP``. All
is float32, which holds every whole number below 2**24.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tests.formulas.common import Tensors, draws

# Sender and receiver of each payload of a step. Worker 0 only says that they are to be sent.
FLOW = (("worker1", "worker3"), ("worker2", "worker3"), ("worker3", "worker4"))


def trace(case: Any, given: Tensors) -> Tensors:
    """Add two tensors on worker 3, then double their sum and add one on worker 4."""
    found: Tensors = {}
    for step in range(case.steps):
        a, b = (
            torch.randint(1, 1001, (case.side, case.side), generator=draws(case.seed, f"{maker}/{step}")).numpy()
            for maker in ("worker1", "worker2")
        )
        found[f"{step:04d}/sum"] = torch.tensor((2 * (a + b) + 1).astype(np.float32))
        for index in range(5):
            worker = f"worker{index}"
            sent, received = (sum(worker == edge[end] for edge in FLOW) for end in (0, 1))
            found[f"{step:04d}/payloads/sent/{worker}"] = torch.tensor(sent)
            found[f"{step:04d}/payloads/received/{worker}"] = torch.tensor(received)
    return found
