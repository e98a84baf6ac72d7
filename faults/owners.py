"""What a role keeps for others: RRefs and autograd contexts. Runs in the role."""

from __future__ import annotations

import gc

import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc

# Which kind of leak each count belongs to.
COUNTS = {
    "num_owner_rrefs": "rrefs",
    "num_forks": "rrefs",
    "num_pending_users": "rrefs",
    "num_autograd_contexts": "contexts",
}


def kept(collect: bool = False) -> dict[str, int]:
    """By torch's own names. ``collect``: first drop what only garbage holds, here or on another role's behalf."""
    if collect:
        gc.collect()
    every = {**rpc._rref_context_get_debug_info(), **dist_autograd._get_debug_info()}  # type: ignore[attr-defined]
    return {name: int(every[name]) for name in COUNTS}
