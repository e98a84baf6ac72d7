"""Functions of roles in the tests of calls that fail in flight."""

from __future__ import annotations

import os
import select
from typing import Any

import torch
import torch.distributed.rpc as rpc
from torch.futures import Future

from tests.support.answers import answer
from tests.support.roles_shop import count_run, function, process_id


def wait_for_failure(pipe: str) -> None:
    """Execute until the caller writes to the pipe, which it does when it has failed; for 5 s at most."""
    count_run("wait_for_failure")
    handle = os.open(pipe, os.O_RDONLY)
    try:
        select.select([handle], [], [], 5)
    finally:
        os.close(handle)


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def forward(to: str) -> Future[Any]:
    """Answer with the future of a call of its own."""
    future: Future[Any] = rpc.rpc_async(to, function, args=(2,))
    return future


def fail_while_it_executes(to: str, pipe: str) -> str:
    """Return the error of a call in flight whose function ends only after this caller has failed, when it has ended.

    The callee has one RPC thread, so its next call comes after that.
    """
    handle = os.open(pipe, os.O_RDWR)
    try:
        failed = answer(lambda: rpc.rpc_sync(to, wait_for_failure, args=(pipe,), timeout=20))
        os.write(handle, b"!")
        rpc.rpc_sync(to, process_id)
    finally:
        os.close(handle)
    return failed.text if failed.seconds < 4 else f"after {failed.seconds:.1f} s: {failed.text}"


def passed_on(to: str, on: str) -> list[str]:
    """Return the errors that a call in flight has where its future is passed on."""
    both = torch.futures.collect_all([rpc.rpc_async(to, function, args=(2,))])
    ways = {
        "collected": both.wait,
        "waited for with others": lambda: torch.futures.wait_all([rpc.rpc_async(to, function, args=(2,))]),
        "chained": lambda: rpc.rpc_async(to, function, args=(2,)).then(lambda done: done.value()).wait(),
        "answered with": lambda: rpc.rpc_sync(on, forward, args=(to,)),
    }
    errors = [f"{way}: {answer(each).text}" for way, each in ways.items()]
    rpc.rpc_sync(to, process_id)  # in its only RPC thread, so after the last call's end
    return errors


def call(to: str) -> str:
    return answer(lambda: rpc.rpc_sync(to, function, args=(2,), timeout=20)).text


def call_twice(to: str, seconds: float) -> list[str]:
    """Return the errors of two calls with this limit, when both have ended at their callee as well."""
    errors = [answer(lambda: rpc.rpc_sync(to, function, args=(2,), timeout=seconds)).text for _ in range(2)]
    rpc.rpc_sync(to, process_id)
    return errors


def refer(to: str) -> Any:
    return rpc.remote(to, function, args=(2,)).to_here(10)
