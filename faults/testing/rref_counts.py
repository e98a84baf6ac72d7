"""Count the RRefs and autograd contexts that a role keeps for others; at the role's end, write them to a file."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch.distributed.rpc import api

from faults.tracing import current_tracer

# The kind of leak that each count belongs to.
COUNTS = {
    "num_owner_rrefs": "rrefs",
    "num_forks": "rrefs",
    "num_pending_users": "rrefs",
    "num_autograd_contexts": "contexts",
}


def kept(collect: bool = False) -> dict[str, int]:
    """Return the counts by torch's own names. ``collect``: first collect garbage, which may hold some of them."""
    if collect:
        gc.collect()
    every = {**rpc._rref_context_get_debug_info(), **dist_autograd._get_debug_info()}  # type: ignore[attr-defined]
    return {name: int(every[name]) for name in COUNTS}


def kept_and_seen(collect: bool = False) -> tuple[dict[str, int], int]:
    """Return `kept`, and how many events the trace of this role has seen, 0 if it does not trace."""
    tracer = current_tracer()
    return kept(collect), 0 if tracer is None else tracer.rrefs.events


def record(folder: str, role: str) -> None:
    """Make a role record its counts when it shuts RPC down and no calls can arrive. To be used as a ``before``."""
    api._finalize_shutdown = partial(_finalize, api._finalize_shutdown, _file(folder, role))


def recorded(folder: str, role: str) -> dict[str, int]:
    """Read what `record` wrote; empty for a role that did not shut RPC down."""
    place = _file(folder, role)
    return json.loads(place.read_text()) if place.exists() else {}


def _finalize(original: Callable[[], None], place: Path) -> None:
    place.write_text(json.dumps(kept(collect=True)))
    original()


def _file(folder: str, role: str) -> Path:
    return Path(folder) / f"{role}.kept"
