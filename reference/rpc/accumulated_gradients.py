"""Wait for the gradients of a role, because torch's backward pass may return before they are there (S4.14)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed.autograd as dist_autograd


class AccumulatedGradients:
    """Knows when an autograd context has the gradient of each parameter. Runs on the parameters' owner.

    `dist_autograd.backward` does not wait for all messages of the pass. If a role's second gradient message overtakes
    its first at one place in torch's engine, the engine forgets what the second sent on to a third role. So the pass
    ends on the caller while that role still works. An optimizer that steps now skips all parameters of that role,
    without an error.

    Make it when the parameters have their dtype and device, and before the first pass.

    Args:
        parameters: the parameters by name. Each that requires a gradient must take part in every pass that is awaited.
    """

    def __init__(self, parameters: Mapping[str, torch.Tensor]) -> None:
        self._changed = threading.Condition()
        self._parameters = {name: each for name, each in parameters.items() if each.requires_grad}
        # A parameter refers weakly to the node that has the hook, so these references keep the hooks.
        self._nodes = [each.view_as(each).grad_fn.next_functions[0][0] for each in self._parameters.values()]  # type: ignore[union-attr]
        for node in self._nodes:
            node.register_hook(self._on_gradient)  # type: ignore[union-attr]

    def _on_gradient(self, *_: Any) -> None:
        """Runs in a thread of the backward pass, when the context has one more gradient."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, context_id: int, timeout: float) -> dict[str, torch.Tensor]:
        """Return all gradients of one backward pass as soon as the context has them.

        Raises:
            TimeoutError: after ``timeout`` seconds one is still missing. Says which.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: not self._missing(context_id), timeout):
                missing = self._missing(context_id)
                raise TimeoutError(
                    f"{len(missing)} of {len(self._parameters)} parameters, among them {missing[0]!r}, had no gradient "
                    f"{timeout:g} s after the backward pass, wanted one for each"
                )
        gradients = dist_autograd.get_gradients(context_id)  # type: ignore[attr-defined]
        return {name: gradients[each] for name, each in self._parameters.items()}

    def _missing(self, context_id: int) -> list[str]:
        gradients = dist_autograd.get_gradients(context_id)  # type: ignore[attr-defined]
        return [name for name, each in self._parameters.items() if each not in gradients]
