"""Run a distributed backward pass that has ended when the call returns, even if it fails."""

from __future__ import annotations

import threading
import weakref

import torch
import torch.distributed.autograd as dist_autograd  # the module: `context` alone has no `dist_backward` (S0.18)


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
