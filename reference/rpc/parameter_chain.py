"""Use one model for several micro-batches, so that its gradients always add up in the same order."""

from __future__ import annotations

import torch
from torch import nn
from torch.func import functional_call


class ParameterChain:
    """Each micro-batch uses aliases of the tensors that the one before it used: a chain that ends in the parameters.

    If all micro-batches used the parameters themselves, a parameter would add up their gradients in the order in which
    they arrive. The engine of distributed autograd works on several micro-batches at once, so from three micro-batches
    on that order decides bits. In the chain every sum has two terms: one micro-batch's own gradient and the sum of the
    later ones. Two terms commute, so the order is fixed: last to first, as in a local backward pass over the same
    micro-batches.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.links: dict[str, torch.Tensor] = {}

    def restart(self) -> None:
        """Begin a new batch, whose first micro-batch uses the parameters themselves."""
        self.links = dict(self.module.named_parameters())

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The module's output for the next micro-batch."""
        output: torch.Tensor = functional_call(self.module, self.links, (x,))
        self.links = {name: link.view_as(link) for name, link in self.links.items()}
        return output
