"""Name the sites that a remote call belongs to, from the function and the arguments that RPC gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import Any

import torch
from torch.distributed.rpc import rref_proxy

from faults.plan.site import name_of

# The functions that an RRef's proxy really calls, with (rref, name of the method, args, kwargs).
_PROXIES = (rref_proxy._local_invoke, rref_proxy._local_invoke_async_execution)


def sites_of(function: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the sites that this call belongs to, the most specific one last.

    A call through an RRef's proxy belongs to the method's site. If a helper gets a function as an argument, as the
    tutorials' ``_call_method`` does, the call belongs to the helper's site and to the function's.
    """
    if any(function is proxy for proxy in _PROXIES):
        return (name_of(getattr(_type_of(args[0]), args[1])),)
    handed = [each for each in (*args, *kwargs.values()) if isinstance(each, FunctionType | MethodType)]
    return tuple(dict.fromkeys([name_of(function), *map(name_of, handed[:1])]))


def _type_of(rref: Any) -> Any:
    """Return the class of the value that an RRef refers to. Its proxy has just asked the owner for it."""
    found = rref._get_type()
    return found.wait() if isinstance(found, torch._C.Future) else found
