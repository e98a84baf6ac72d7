"""Functions of roles that make one call of each sort of site."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc

from faults.plan.fields import BACKWARD, TO_HERE

TIMEOUT = 1.0


def double(values: torch.Tensor) -> torch.Tensor:
    return values * 2


def _call() -> None:
    rpc.rpc_sync("b", double, args=(torch.ones(3),), timeout=TIMEOUT)


def _fetch() -> None:
    rpc.remote("b", double, args=(torch.ones(3),)).to_here(timeout=TIMEOUT)


def _backward() -> None:
    with dist_autograd.context() as context:
        loss = rpc.rpc_sync("b", double, args=(torch.ones(3, requires_grad=True),)).sum()
        dist_autograd.backward(context, [loss])  # type: ignore[attr-defined]


# How a call of each sort of site is made: of a Python function, and what torch's engine sends by itself.
SORTS: Mapping[str, Callable[[], None]] = {f"{__name__}:double": _call, TO_HERE: _fetch, BACKWARD: _backward}


def play(site: str) -> None:
    """Make a call of this sort, whatever comes of it."""
    with suppress(Exception):
        SORTS[site]()


def stay() -> None:
    """Execute what the others call."""
