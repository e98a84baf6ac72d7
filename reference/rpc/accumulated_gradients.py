"""Wait for the gradients of a role, because torch's backward pass may return before they are there (S4.14)."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import torch
import torch.distributed.autograd as dist_autograd


class AccumulatedGradients:
    """Knows when the gradient of each parameter is there. Runs on the parameters' owner, for one pass at a time.

    `dist_autograd.backward` does not wait for all messages of the pass. A role that gets two gradient messages sends
    one on for each. If the second one overtakes the first at one place in torch's engine, the engine forgets what it
    has sent on for the second. So the pass may end on the caller while the role that got this message still works.
    `DistributedOptimizer` now steps without this pass's gradients of that role, without an error.

    The gradients are read from the context only when all are there: torch reads them without a lock, and a reader that
    meets a writer can end the process.

    Make it when the parameters have their dtype and device, and before the first pass.

    Args:
        parameters: the parameters by name. Each that requires a gradient must take part in every pass.
    """

    def __init__(self, parameters: Mapping[str, torch.Tensor]) -> None:
        self._parameters = {name: each for name, each in parameters.items() if each.requires_grad}
        self._late = _Late(self._parameters)
        # A parameter refers weakly to the node that has the hook, so these references keep the hooks.
        self._nodes = [_node(each) for each in self._parameters.values()]
        for name, node in zip(self._parameters, self._nodes, strict=True):
            node.register_hook(partial(self._late.arrived, name))

    def restart(self) -> None:
        """Begin another pass: before its first gradient, and after the pass before it was waited for or has failed."""
        self._late.restart(self._parameters)

    def wait(self, context_id: int, timeout: float) -> dict[str, torch.Tensor]:
        """Return all gradients of the pass, which is that context's, as soon as they are there.

        Raises:
            TimeoutError: after ``timeout`` seconds one is still missing. Says which.
            LookupError: they arrived, but in another context.
        """
        if late := self._late.after(timeout):
            raise TimeoutError(
                f"{len(late)} of {len(self._parameters)} parameters, among them {late[0]!r}, had no gradient "
                f"{timeout:g} s after the backward pass, wanted one for each"
            )
        gradients = dist_autograd.get_gradients(context_id)  # type: ignore[attr-defined]
        if missing := [name for name, each in self._parameters.items() if each not in gradients]:
            raise LookupError(f"context {context_id} has no gradient of {missing[0]!r}, wanted that of the last pass")
        return {name: gradients[each] for name, each in self._parameters.items()}


class _Late:
    """The names of the parameters whose gradient is not there yet. It refers to no node, so there is no cycle."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = list(names)
        self._changed = threading.Condition()

    def restart(self, names: Iterable[str]) -> None:
        with self._changed:
            self._names = list(names)

    def arrived(self, name: str, *_: Any) -> None:
        """Runs in a thread of the backward pass, after the context has got the gradient."""
        with self._changed:
            if name in self._names:
                self._names.remove(name)
            if not self._names:
                self._changed.notify_all()

    def after(self, timeout: float) -> list[str]:
        """Wait until none is late, at most ``timeout`` seconds; return those that are."""
        with self._changed:
            self._changed.wait_for(lambda: not self._names, timeout)
            return list(self._names)


def _node(parameter: torch.Tensor) -> Any:
    """The node of autograd's graph that adds up this parameter's gradients."""
    with torch.enable_grad():
        made: Any = parameter.view_as(parameter).grad_fn
        return made.next_functions[0][0]
