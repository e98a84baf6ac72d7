"""Shards of a pipeline, which run any two halves of a model on their workers (seed 004, step 1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import torch
from torch import nn
from torch.distributed.rpc import RRef

from reference.rpc.accumulated_gradients import AccumulatedGradients
from reference.rpc.ordered_executor import OrderedExecutor
from reference.rpc.parameter_chain import ParameterChain

Named = dict[str, torch.Tensor]


class Shard(nn.Module):
    """One part of a model, on the worker that owns it. Subclasses define `compute`.

    Each parameter that requires a gradient takes part in every batch. Otherwise `await_gradients` raises.
    """

    def __init__(self, num_split: int, timeout: float, device: str = "cpu", *, to_cpu: bool = True) -> None:
        super().__init__()
        self.num_split = num_split
        self.timeout = timeout
        self.device = torch.device(device)
        self.to_cpu = to_cpu
        self._executor = OrderedExecutor(timeout)
        self._chain = ParameterChain(self)

    def compute(self, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def forward(self, x: Any, number: int | None = None) -> torch.Tensor:
        """Compute a tensor in this thread, or micro-batch ``number`` (from 0, of all so far) that an RRef refers to.

        Micro-batches are fetched at once, each in the RPC thread of its call, but computed in the order of their
        numbers, because batch norm's running statistics depend on the order (S4.6).

        Raises:
            PredecessorFailed: an earlier micro-batch failed or is missing.
        """
        if isinstance(x, torch.Tensor):
            return self.compute(x)
        assert number is not None
        here = x.to_here(timeout=self.timeout).to(self.device)
        self._settle()
        return self._executor.run(number, lambda: self._compute(here, number))

    def _compute(self, x: torch.Tensor, number: int) -> torch.Tensor:
        """Runs in the executor's thread."""
        if number % self.num_split == 0:
            self._chain.restart()
            self._accumulated.restart()
        out: torch.Tensor = self._chain(x)
        out = out.cpu() if self.to_cpu else out
        self._settle()
        return out

    def _settle(self) -> None:
        """Wait for this thread's CUDA stream, because another thread uses the tensors on a stream of its own."""
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()

    def parameter_rrefs(self) -> list[RRef[Any]]:
        """RRefs to all parameters, made on their owner, because a parameter that is sent is a detached copy (S3.3).

        The set of parameters whose gradients are awaited is fixed now. The master calls this before the first batch.
        """
        self._accumulated.restart()
        return [RRef(p) for p in self.parameters()]

    @cached_property
    def _accumulated(self) -> AccumulatedGradients:
        return AccumulatedGradients(dict(self.named_parameters()))

    def values(self) -> tuple[Named, Named]:
        """Copies of all parameters and of all buffers, on the CPU."""
        return on_cpu(dict(self.named_parameters())), on_cpu(dict(self.named_buffers()))

    def await_gradients(self, context_id: int) -> None:
        """Wait until that autograd context has the gradients of this shard (S4.14).

        Raises:
            TimeoutError: one is missing after this shard's timeout. Says which.
        """
        self._accumulated.wait(context_id, self.timeout)

    def gradients(self, context_id: int) -> Named:
        """This shard's gradients in that autograd context, on the CPU. Waits and raises as `await_gradients`."""
        return on_cpu(self._accumulated.wait(context_id, self.timeout))


def on_cpu(tensors: Mapping[str, torch.Tensor]) -> Named:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}


class SequentialShard(Shard):
    """A shard of any module, for instance an ``nn.Sequential``."""

    def __init__(self, make: Callable[[], nn.Module], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seq = make().to(self.device)

    def compute(self, x: torch.Tensor) -> torch.Tensor:
        return self.seq(x)  # type: ignore[no-any-return]


def joined(first: tuple[Named, Named], second: tuple[Named, Named]) -> tuple[Named, Named]:
    """(parameters, buffers) of two shards under common names."""
    parameters, buffers = (
        {
            f"shard{i}.{name}": tensor
            for i, shard in enumerate((first, second), 1)
            for name, tensor in shard[kind].items()
        }
        for kind in (0, 1)
    )
    return parameters, buffers
