"""Count in a role the RRefs and autograd contexts that it keeps for others; at its end, into a file."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch.distributed.rpc import api

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


def record(folder: str, role: str) -> None:
    """A ``before``: a role that shuts RPC down writes what it keeps then, when nobody will call any more."""
    api._finalize_shutdown = partial(_finalize, api._finalize_shutdown, _file(folder, role))


def recorded(folder: str, role: str) -> dict[str, int]:
    """What `record` wrote; empty of a role that did not come to its shutdown."""
    place = _file(folder, role)
    return json.loads(place.read_text()) if place.exists() else {}


def _finalize(original: Callable[[], None], place: Path) -> None:
    place.write_text(json.dumps(kept(collect=True)))
    original()


def _file(folder: str, role: str) -> Path:
    return Path(folder) / f"{role}.kept"
