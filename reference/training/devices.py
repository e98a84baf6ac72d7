"""The device of one of several roles of a kind."""

from __future__ import annotations

import torch


def device_in_turn(kind: str, rank: int) -> torch.device:
    """The CPU; or with ``kind`` cuda the role's GPU, because roles share this machine's in turn, by ``rank`` from 0."""
    if kind == "cpu":
        return torch.device("cpu")
    return torch.device("cuda", rank % torch.cuda.device_count())
