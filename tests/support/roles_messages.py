"""Functions of roles in the tests of messages: each makes a role send messages of one type, and returns what the role
sees.

``a`` executes the function, ``b`` owns every RRef, ``c`` is a third role. Each function returns seconds, counts and
error texts by name.
"""

from __future__ import annotations

import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch._C._distributed_rpc import get_rpc_timeout

Seen = dict[str, Any]

_kept: list[Any] = []
_count = 0


def count() -> int:
    """Count the executions on the role that executes it."""
    global _count
    _count += 1
    return _count


def counted() -> int:
    return _count


@torch.jit.script
def scripted(value: int) -> int:
    return value + 1


def owned() -> dict[str, int]:
    """Return what this role keeps for others."""
    every = {**rpc._rref_context_get_debug_info(), **dist_autograd._get_debug_info()}  # type: ignore[attr-defined]
    return {name: int(every[name]) for name in ("num_owner_rrefs", "num_forks", "num_autograd_contexts")}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds, and the function's result or the text of its error."""
    begin = time.monotonic()
    try:
        value = work()
    except Exception as error:
        value = f"{type(error).__name__}: {error}"
    return time.monotonic() - begin, value


def until(name: str, wanted: int) -> float:
    """Return the seconds until ``b`` keeps so many of these, at most 10."""
    begin = time.monotonic()
    while rpc.rpc_sync("b", owned)[name] != wanted and time.monotonic() < begin + 10:
        pass
    return time.monotonic() - begin


# What the first word of a message's type stands for.
FUNCTIONS: dict[str, tuple[Any, ...]] = {"PYTHON": (count, ()), "SCRIPT": (scripted, (1,))}


def two_calls(kind: str = "PYTHON") -> Seen:
    calls = [timed(lambda: rpc.rpc_sync("b", *FUNCTIONS[kind])) for _ in range(2)]
    return {"first": calls[0], "again": calls[1]}


def interrupted(seconds: float) -> Seen:
    """Make a call that is still being sent when a signal comes whose handler raises."""

    def refuse(*_: object) -> None:
        raise TimeoutError("too slow")

    before = signal.signal(signal.SIGALRM, refuse)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        rpc.rpc_sync("b", count)
    except TimeoutError as error:
        rpc.rpc_sync("b", counted)  # which is late, too, so the first call has been executed then
        return {"call": f"{type(error).__name__}: {error}"}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return {"call": "returned"}


def remote(kind: str) -> Seen:
    seconds, made = timed(lambda: rpc.remote("b", *FUNCTIONS[kind]))
    return {"remote": seconds, "fetch": timed(made.to_here)}


def two_fetches(kind: str) -> Seen:
    made = rpc.remote("b", *FUNCTIONS[kind])
    return {"first": timed(made.to_here), "again": timed(made.to_here)}


def take(made: Any) -> int:
    """Use the RRef that ``a`` has passed on. Executed on ``c``."""
    return int(made.to_here())


def keep(made: Any) -> None:
    _kept.append(made)


def let_go() -> None:
    _kept.clear()


def fork_request() -> Seen:
    """``c`` asks ``b`` for a fork of its own before it uses the RRef."""
    made = rpc.remote("b", count)
    made.to_here()
    return {"pass": timed(lambda: rpc.rpc_sync("c", take, (made,)))}


def child_accept() -> Seen:
    """``a`` drops its own fork only when ``c`` reports that it has one. Then ``b`` has one fork left."""
    made = rpc.remote("b", count)
    made.to_here()
    begin = time.monotonic()  # on this role, because ``c`` may report it before its answer arrives
    rpc.rpc_sync("c", keep, (made,))
    del made
    until("num_forks", 1)
    seconds = time.monotonic() - begin
    rpc.rpc_sync("c", let_go)
    return {"given up": seconds, "forgotten": until("num_owner_rrefs", 0)}


def user_delete() -> Seen:
    made = rpc.remote("b", count)
    made.to_here()
    before = rpc.rpc_sync("b", owned)["num_owner_rrefs"]
    begin = time.monotonic()
    del made
    return {"owned": before, "del": time.monotonic() - begin, "forgotten": until("num_owner_rrefs", 0)}


def autograd_cleanup() -> Seen:
    with dist_autograd.context() as context:
        value = rpc.rpc_sync("b", torch.add, (torch.ones(2, requires_grad=True), torch.ones(2)))
        dist_autograd.backward(context, [value.sum()])  # type: ignore[attr-defined]
        before = rpc.rpc_sync("b", owned)["num_autograd_contexts"]
        begin = time.monotonic()
    return {"owned": before, "leave": time.monotonic() - begin, "forgotten": until("num_autograd_contexts", 0)}


def call_in_context() -> Seen:
    """A Python call within a context of distributed autograd is another message."""
    with dist_autograd.context():
        tensor = torch.ones(1, requires_grad=True)
        return {"call": timed(lambda: rpc.rpc_sync("b", torch.add, (tensor, tensor)).item()), "own": timed(_identity)}


def _identity() -> int:
    tensor = torch.ones(1, requires_grad=True)
    return int(rpc.rpc_sync("b", same, (tensor,)).item())


def same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def call_within(seconds: float) -> tuple[float, Any]:
    return timed(lambda: rpc.rpc_sync("b", count, timeout=seconds))


def call_oneself() -> tuple[float, Any]:
    return timed(lambda: rpc.rpc_sync(rpc.get_worker_info().name, count))


def threads_of_transports() -> set[str]:
    """Find them by the kernel's names of this process's threads."""
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    return {name for name in names if name.startswith("TP_")}


def file_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_FSIZE)[0]


def settings() -> tuple[float, bool]:
    import sys

    return get_rpc_timeout(), "torch.distributed.rpc._testing" in sys.modules
