"""The device of one of several roles of the same kind."""

from __future__ import annotations

import torch


def device_in_turn(kind: str, rank: int) -> torch.device:
    """Return the CPU, or with ``kind`` cuda the GPU number ``rank`` (from 0), modulo the GPUs of this machine."""
    if kind == "cpu":
        return torch.device("cpu")
    return torch.device("cuda", rank % torch.cuda.device_count())
