"""What a role does so that one message of each type is sent, and what can be seen of it; for the tests of messages."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc

_kept: list[Any] = []
_counts: dict[str, int] = {}


def count(key: str) -> int:
    """Executed where it is called, which keeps count."""
    _counts[key] = _counts.get(key, 0) + 1
    return _counts[key]


def counted(key: str) -> int:
    return _counts.get(key, 0)


@torch.jit.script
def scripted(value: int) -> int:
    return value + 1


def info() -> dict[str, int]:
    """What this role has of RRefs and autograd contexts."""
    every = {**rpc._rref_context_get_debug_info(), **dist_autograd._get_debug_info()}
    return {name: int(value) for name, value in every.items()}


class Watch:
    """Seconds and the error of each piece of work, by name."""

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {}

    def do(self, name: str, work: Callable[[], Any]) -> Any:
        begin = time.monotonic()
        try:
            value = work()
        except Exception as error:
            value = f"{type(error).__name__}: {error}"
        self.seen[name] = (round(time.monotonic() - begin, 3), value if isinstance(value, (int, str, dict)) else None)
        return value


def python_call() -> dict[str, Any]:
    watch = Watch()
    watch.do("first", lambda: rpc.rpc_sync("b", count, ("call",)))
    watch.do("again", lambda: rpc.rpc_sync("b", count, ("call",)))
    watch.do("other", lambda: rpc.rpc_sync("b", counted, ("call",)))
    return watch.seen


def script_call() -> dict[str, Any]:
    watch = Watch()
    watch.do("first", lambda: rpc.rpc_sync("b", scripted, (1,)))
    watch.do("again", lambda: rpc.rpc_sync("b", scripted, (1,)))
    watch.do("python", lambda: rpc.rpc_sync("b", counted, ("call",)))
    return watch.seen


def _remote(function: Any, args: tuple[Any, ...]) -> dict[str, Any]:
    watch = Watch()
    made = watch.do("remote", lambda: rpc.remote("b", function, args))
    watch.do("fetch", made.to_here)
    watch.do("counted", lambda: rpc.rpc_sync("b", counted, ("call",)))
    watch.do("info", info)
    return watch.seen


def python_remote() -> dict[str, Any]:
    return _remote(count, ("call",))


def script_remote() -> dict[str, Any]:
    return _remote(scripted, (1,))


def _fetch(function: Any, args: tuple[Any, ...]) -> dict[str, Any]:
    watch = Watch()
    made = rpc.remote("b", function, args)
    while not made.confirmed_by_owner():
        pass
    watch.do("fetch", made.to_here)
    watch.do("again", made.to_here)
    return watch.seen


def python_fetch() -> dict[str, Any]:
    return _fetch(count, ("call",))


def script_fetch() -> dict[str, Any]:
    return _fetch(scripted, (1,))


def take(made: Any) -> float:
    """At c: use the RRef that a has passed on."""
    begin = time.monotonic()
    made.to_here()
    return time.monotonic() - begin


def keep(made: Any) -> None:
    _kept.append(made)


def let_go() -> None:
    _kept.clear()


def fork_request() -> dict[str, Any]:
    """a passes b's RRef on to c, twice: c asks b for a fork of its own."""
    watch = Watch()
    made = rpc.remote("b", count, ("call",))
    made.to_here()
    watch.do("pass", lambda: rpc.rpc_sync("c", take, (made,)))
    watch.do("info b", lambda: rpc.rpc_sync("b", info))
    return watch.seen


def user_delete() -> dict[str, Any]:
    watch = Watch()
    made = rpc.remote("b", count, ("call",))
    made.to_here()
    watch.do("before", lambda: rpc.rpc_sync("b", info))

    def drop() -> None:
        nonlocal made
        del made

    watch.do("drop", drop)
    watch.do("after", lambda: rpc.rpc_sync("b", info))
    return watch.seen


def add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b


def cleanup() -> dict[str, Any]:
    watch = Watch()

    def work() -> None:
        with dist_autograd.context() as context:
            value = rpc.rpc_sync("b", add, (torch.ones(2, requires_grad=True), torch.ones(2)))
            dist_autograd.backward(context, [value.sum()])
            begin = time.monotonic()
        watch.seen["leave"] = round(time.monotonic() - begin, 3)

    watch.do("work", work)
    watch.do("after", lambda: rpc.rpc_sync("b", info))
    return watch.seen


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "PYTHON_CALL": python_call,
    "SCRIPT_CALL": script_call,
    "PYTHON_REMOTE_CALL": python_remote,
    "SCRIPT_REMOTE_CALL": script_remote,
    "PYTHON_RREF_FETCH_CALL": python_fetch,
    "SCRIPT_RREF_FETCH_CALL": script_fetch,
    "RREF_FORK_REQUEST": fork_request,
    "RREF_CHILD_ACCEPT": fork_request,
    "RREF_USER_DELETE": user_delete,
    "CLEANUP_AUTOGRAD_CONTEXT_REQ": cleanup,
}
