"""Run a distributed backward pass that is over when it returns, even if it fails."""

from __future__ import annotations

import threading
import weakref

import torch
import torch.distributed.autograd as dist_autograd  # the module: `context` alone has no `dist_backward` (S0.18)


class _Token:
    """Lives as long as the graph of one pass."""


def backward(context_id: int, loss: torch.Tensor, timeout: float) -> None:
    """`dist_autograd.backward` of one ``loss``; a failure is raised once this process's part of the pass is done.

    torch raises it as soon as a message of the pass has failed. Then another thread may still be in a hook of DDP's,
    and so have the reducer's lock: who lets go of the model now waits for that lock, with Python's, which the hook
    wants in order to end. So hung three of seven runs that lost a trainer right after its lookup.

    ``timeout``: seconds that this waits for the other thread, whose collectives must have a shorter limit.

    Raises:
        RuntimeError: a role of this pass failed or was lost.
    """
    # A root of its own: nobody else holds its node, which goes with the pass.
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
