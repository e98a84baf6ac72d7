"""Functions that a trainer calls on a module of another role, by `_remote_method`."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed.autograd as dist_autograd
from torch import nn
from torch.distributed.rpc import RRef

Named = dict[str, torch.Tensor]


def _parameter_rrefs(module: nn.Module) -> list[RRef[Any]]:
    """Runs on the owner, because a parameter that is fetched elsewhere is a detached copy (S3.3)."""
    return [RRef(parameter) for parameter in module.parameters()]


def _values(module: nn.Module) -> Named:
    """Runs on the owner: the parameters as they are now."""
    return {name: parameter.detach() for name, parameter in module.named_parameters()}


def _gradients(module: nn.Module, context_id: int) -> Named:
    """Runs on the owner: the gradients in that context, which are never in ``.grad``."""
    gradients = dist_autograd.get_gradients(context_id)  # type: ignore[attr-defined]
    return {name: gradients[parameter] for name, parameter in module.named_parameters()}
