"""Functions of roles in the tests of the pytest plugin."""

from __future__ import annotations

import os
import time
from typing import Any

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc

_kept: list[Any] = []


def double(x: Any) -> Any:
    return x + x


def ask(peer: str) -> int:
    answer: int = rpc.rpc_sync(peer, double, args=(21,), timeout=5)
    return answer


def double_slowly(x: Any) -> Any:
    time.sleep(0.4)
    return x + x


def ask_slowly(peer: str) -> int:
    answer: int = rpc.rpc_sync(peer, double_slowly, args=(21,), timeout=5)
    return answer


def ask_and_say(peer: str) -> int:
    print(f"asking {peer}")
    return ask(peer)


def keep_an_rref(peer: str) -> None:
    _kept.append(rpc.remote(peer, double, args=(1,)))
    _kept[-1].to_here()


def keep_two_rrefs(peer: str) -> None:
    for _ in range(2):
        keep_an_rref(peer)


def keep_a_pair(peer: str) -> None:
    """Keep an RRef beside those that were kept before."""
    _kept.append((rpc.remote(peer, double, args=(2,)),))
    _kept[-1][0].to_here()


def keep_an_rref_in_garbage(peer: str) -> None:
    """Put an RRef in a cycle, which only the collector frees."""
    circle: list[Any] = [rpc.remote(peer, double, args=(1,))]
    circle[0].to_here()
    circle.append(circle)


def fail_beside_an_rref(peer: str) -> None:
    """Raise the future's own exception, so that its frames hold the RRef."""
    rref = rpc.remote(peer, double, args=(1,))
    rref.to_here()
    future: torch.futures.Future[Any] = torch.futures.Future()
    future.set_exception(ValueError("too late"))
    future.wait()


def caught_beside_an_rref(peer: str) -> str:
    try:
        fail_beside_an_rref(peer)
    except Exception as error:
        return str(error)
    return "nothing"


def keep_a_context(peer: str) -> None:
    context = dist_autograd.context()
    context.__enter__()
    _kept.append(context)
    rpc.rpc_sync(peer, double, args=(torch.ones(2, requires_grad=True),))


def kept() -> int:
    return len(_kept)


process_id = os.getpid
