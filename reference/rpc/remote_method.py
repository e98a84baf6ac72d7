"""Call a method of a remote object, by the two helpers that seed 000 uses and nowhere defines (S0.9, S0.17)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed.rpc as rpc
from torch.distributed.rpc import RRef


def _call_method(method: Callable[..., Any], rref: RRef[Any], *args: Any, **kwargs: Any) -> Any:
    """Runs on the owner of ``rref``: call ``method`` of the object itself, not of a copy."""
    return method(rref.local_value(), *args, **kwargs)


def _remote_method(method: Callable[..., Any], rref: RRef[Any], *args: Any, **kwargs: Any) -> Any:
    """Call ``method`` of the object behind ``rref`` where it lives, in the caller's autograd context; wait for it."""
    return rpc.rpc_sync(rref.owner(), _call_method, args=(method, rref, *args), kwargs=kwargs)
