"""Tell with what call RRefs came or go: torch pickles and unpickles a call's RRefs in the thread of the call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any

from torch.distributed.rpc import rref_proxy

from faults.inject.call.delivery import deliver
from faults.ledger.stock import Ident
from faults.tracing.known import Known

# The functions that an RRef's proxy really calls, with (rref, name of the method, args, kwargs).
_PROXIES = (rref_proxy._local_invoke, rref_proxy._local_invoke_async_execution)


class OfThread(threading.local):
    """The RRefs that one thread has unpickled, and those that it has pickled, and of which it is not known yet with
    what call they came or go."""

    def __init__(self) -> None:
        self.arrived: list[Known] = []
        self.leaving: list[Ident] = []


def called(call: Any, ident_of: Callable[[Any], Ident | None]) -> tuple[Any, tuple[Ident, str] | None]:
    """Return the function of a call; or of a proxy's call the RRef and the name of the method."""
    function, args, kwargs = call.func, call.args, call.kwargs
    if function is deliver:  # a fault hits the call
        function, args, kwargs = args[1:4]
    if any(function is proxy for proxy in _PROXIES):
        ident = ident_of(args[0])
        return None, None if ident is None else (ident, str(args[1]))
    handed = [each for each in (*args, *kwargs.values()) if isinstance(each, FunctionType | MethodType)]
    return (handed[0] if handed else function), None


def parts(value: Any, depth: int = 3) -> Iterator[Any]:
    """Yield a value, and what it consists of."""
    yield value
    if depth:
        found = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple | set) else ()
        for part in list(found or getattr(value, "__dict__", {}).values()):
            yield from parts(part, depth - 1)
