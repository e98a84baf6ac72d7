"""What DistributedDataParallel needs beside RPC: a process group without a port, a mean in rank order, a safe backward.

Used by `hybrid_ddp`.
"""

from __future__ import annotations

import datetime
import functools
import threading
import traceback
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.autograd as dist_autograd  # the module: `context` alone has no `dist_backward` (S0.18)
import torch.distributed.rpc as rpc
from torch.distributed.rpc import RRef

from reference.outcome import chain_of

# --- A process group whose rendezvous works over RPC: it needs no port, address or file of its own -------------------


def _on_store(store: RRef[Any], method: str, *args: object) -> Any:
    """Runs on the store's owner: call a method of the store."""
    return getattr(store.local_value(), method)(*args)


class RpcStore(dist.Store):  # type: ignore[name-defined, misc]
    """A store that lives on another role. It replaces torch's own TCPStore, which listens on every interface.

    A `wait` occupies one of the owner's RPC threads, of which there are 16 by default.
    """

    def __init__(self, store: RRef[Any], timeout: float) -> None:
        super().__init__()
        self.rref = store
        self.limit = datetime.timedelta(seconds=timeout)

    def wait(self, keys: list[str], timeout: datetime.timedelta | None = None) -> None:
        self._call("wait", keys, timeout or self.limit)

    def _call(self, *args: object) -> Any:
        seconds = self.limit.total_seconds() + 5  # longer than the store's own timeout, whose error says more
        return rpc.rpc_sync(self.rref.owner(), _on_store, args=(self.rref, *args), timeout=seconds)

    set = functools.partialmethod(_call, "set")
    get = functools.partialmethod(_call, "get")
    add = functools.partialmethod(_call, "add")
    check = functools.partialmethod(_call, "check")


@contextmanager
def process_group(store: RRef[Any], rank: int, size: int, timeout: float) -> Iterator[None]:
    """During the block, make this process one of a gloo group of ``size`` processes, torch's default group.

    ``store`` refers to a ``dist.HashStore`` that is made for this group alone; ``timeout`` seconds limit each
    collective. After a failure this process can join no other group, because torch has counted the failed one and so
    uses other keys.

    Raises:
        RuntimeError: the other processes did not join in time, or were lost.
    """
    limit = datetime.timedelta(seconds=timeout)
    dist.init_process_group("gloo", store=RpcStore(store, timeout), rank=rank, world_size=size, timeout=limit)
    try:
        yield
    except BaseException as error:
        _let_go(error)
        raise
    finally:
        dist.destroy_process_group()


def _let_go(error: BaseException) -> None:
    """Forget the objects in the frames of the failed block, such as DDP's reducer, which keeps the group alive.

    Otherwise the reducer would be freed last, and the group with it: by a thread that holds the GIL and waits for
    gloo's threads, one of which may need the GIL to free a tensor. 12 of 360 runs that lost a trainer hung so.
    """
    for each in chain_of(error):
        traceback.clear_frames(each.__traceback__)


# --- The mean of the trainers' gradients in rank order; DDP's own allreduce adds in an order of its own --------------


def mean(gradients: Sequence[torch.Tensor]) -> torch.Tensor:
    """The mean of the trainers' gradients, added in the order in which they are given, which is rank order."""
    total = gradients[0].clone()
    for gradient in gradients[1:]:
        total += gradient
    return total.div_(len(gradients))


def mean_in_rank_order(state, bucket):  # type: ignore[no-untyped-def]
    """DDP's communication hook on every trainer: DDP calls it instead of allreduce for a bucket of dense gradients.

    It has no annotations, because DDP refuses those of a module that, like this one, postpones their evaluation.
    """
    gathered = [torch.empty_like(bucket.buffer()) for _ in range(dist.get_world_size())]
    # It waits here, because Python code in gloo's own thread, by `then`, can deadlock with the group's destructor.
    dist.all_gather(gathered, bucket.buffer())
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(mean(gathered))
    return done


def mean_of_allreduce(gradients: Sequence[torch.Tensor]) -> torch.Tensor:
    """Compute in the twin what DDP's own allreduce computes: it multiplies by 1/n before it adds."""
    # The sum begins with the first gradient, because beginning with 0 would turn a sum of -0.0 into 0.0.
    return functools.reduce(torch.add, [gradient * (1 / len(gradients)) for gradient in gradients])


# --- A distributed backward pass that has ended when the call returns, even if it fails ------------------------------


class _Token:
    """An object that lives as long as the graph of one pass."""


def backward(context_id: int, loss: torch.Tensor, timeout: float) -> None:
    """Run `dist_autograd.backward` of one ``loss``; raise a failure only when this process's part of the pass is done.

    torch raises a failure as soon as a message of the pass has failed. Then another thread may still run a hook of DDP
    and hold the reducer's lock. If this thread now drops the model, it waits for that lock while it holds the GIL, and
    the hook needs the GIL to end: a deadlock. Three of seven runs that lost a trainer right after its lookup hung so.

    ``timeout``: seconds that this waits for the other thread, whose collectives must have a shorter timeout.

    Raises:
        RuntimeError: a role of this pass failed or was lost.
    """
    # A new root, whose node nothing else holds: it is freed at the end of the pass.
    root, ended = loss.view_as(loss), threading.Event()
    token = _Token()
    weakref.finalize(token, ended.set)
    root.grad_fn.metadata["pass"] = token  # type: ignore[union-attr, index]
    del token
    try:
        dist_autograd.backward(context_id, [root])  # type: ignore[attr-defined]
    except BaseException:
        del root
        ended.wait(timeout)
        raise
