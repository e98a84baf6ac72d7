"""Name the sites that a remote call is a call of, from what RPC is given to call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import Any

import torch
from torch.distributed.rpc import rref_proxy

from faults.plan.site import name_of

# What an RRef's proxy really calls, with (rref, name of the method, args, kwargs).
_PROXIES = (rref_proxy._local_invoke, rref_proxy._local_invoke_async_execution)


def sites_of(function: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """The sites that this call is a call of; the most telling one last.

    A method through an RRef's proxy is that method. A helper that is handed a function, as the tutorials'
    ``_call_method`` is, is both.
    """
    if any(function is proxy for proxy in _PROXIES):
        return (name_of(getattr(_type_of(args[0]), args[1])),)
    handed = [each for each in (*args, *kwargs.values()) if isinstance(each, FunctionType | MethodType)]
    return tuple(dict.fromkeys([name_of(function), *map(name_of, handed[:1])]))


def _type_of(rref: Any) -> Any:
    """The class of what it refers to: its proxy has just asked the owner for it."""
    found = rref._get_type()
    return found.wait() if isinstance(found, torch._C.Future) else found
