"""What roles do in the tests of faults: a shop whose functions are called in every way RPC knows."""

from __future__ import annotations

import threading
from typing import Any

import torch
import torch.distributed.rpc as rpc
from torch.futures import Future

# How often each function ran in this process: the callee's own count.
ran: dict[str, int] = {}
order: list[str] = []
_lock = threading.Lock()


def _run(name: str) -> None:
    with _lock:
        ran[name] = ran.get(name, 0) + 1


def counts() -> dict[str, int]:
    """How often each function has run here so far."""
    return dict(ran)


def executions() -> list[str]:
    """Whose `arrive` ran here, in that order."""
    return list(order)


def function(x: int) -> int:
    _run("function")
    return x + 1


@rpc.functions.async_execution
def asynchronous(x: int) -> Future[int]:
    _run("asynchronous")
    future: Future[int] = Future()
    future.set_result(x + 1)
    return future


def arrive(name: str) -> str:
    with _lock:
        order.append(name)
    return name


def refuse(x: int) -> int:
    _run("refuse")
    raise ValueError(f"no {x}")


class Till:
    """Lives on the callee."""

    def method(self, x: int) -> int:
        _run("method")
        return x + 1

    @staticmethod
    def static(x: int) -> int:
        _run("static")
        return x + 1

    @classmethod
    def of_class(cls, x: int) -> int:
        _run("of_class")
        return x + 1

    @staticmethod
    @rpc.functions.async_execution
    def static_asynchronous(x: int) -> Future[int]:
        return asynchronous(x)

    @rpc.functions.async_execution
    def method_asynchronous(self, x: int) -> Future[int]:
        return asynchronous(x)


def _call_method(method: Any, rref: Any, *args: Any) -> Any:
    """The helper of the tutorials."""
    return method(rref.local_value(), *args)


def call(way: str, to: str, x: int, timeout: float = 10.0) -> Any:
    """One call in one way; runs on the caller."""
    here = f"{__name__}:"
    assert here
    if way == "rpc_sync":
        return rpc.rpc_sync(to, function, args=(x,), timeout=timeout)
    if way == "rpc_async":
        return rpc.rpc_async(to, function, args=(x,), timeout=timeout).wait()
    if way == "remote":
        return rpc.remote(to, function, args=(x,), timeout=timeout).to_here(timeout)
    if way == "static":
        return rpc.rpc_sync(to, Till.static, args=(x,), timeout=timeout)
    if way == "of_class":
        return rpc.rpc_sync(to, Till.of_class, args=(x,), timeout=timeout)
    if way == "asynchronous":
        return rpc.rpc_sync(to, asynchronous, args=(x,), timeout=timeout)
    if way == "static_asynchronous":
        return rpc.rpc_sync(to, Till.static_asynchronous, args=(x,), timeout=timeout)
    till = rpc.remote(to, Till)
    if way == "proxy":
        return till.rpc_sync(timeout=timeout).method(x)
    if way == "proxy_async":
        return till.rpc_async(timeout=timeout).method(x).wait()
    if way == "proxy_remote":
        return till.remote(timeout=timeout).method(x).to_here(timeout)
    if way == "proxy_asynchronous":
        return till.rpc_sync(timeout=timeout).method_asynchronous(x)
    if way == "helper":
        return rpc.rpc_sync(to, _call_method, args=(Till.method, till, x), timeout=timeout)
    raise AssertionError(way)


def tensors() -> torch.Tensor:
    return torch.ones(2)
