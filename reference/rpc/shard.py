"""Pipeline parallelism over RPC for any two halves of a model: the shards, and the module that joins them.

Source: seed 004, steps 1 and 2, without what is particular to ResNet50.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch import nn
from torch.distributed.rpc import RRef

from reference.rpc.ordered_executor import Turnstile
from reference.rpc.parameter_chain import ParameterChain

Named = dict[str, torch.Tensor]


class Shard(nn.Module):
    """One part of a model, on the worker that owns it. Subclasses say what `compute` does, or give a module."""

    def __init__(self, num_split: int, timeout: float, device: str = "cpu", *, to_cpu: bool = True) -> None:
        super().__init__()
        self.num_split = num_split
        self.timeout = timeout
        self.device = torch.device(device)
        self.to_cpu = to_cpu
        self._turnstile = Turnstile(timeout)
        self._chain = ParameterChain(self)

    def compute(self, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def forward(self, x: Any, number: int | None = None) -> torch.Tensor:
        """A tensor is computed here and now; an RRef to one is micro-batch ``number`` of all so far, from 0.

        Micro-batches are fetched at once, each in the RPC thread that brought it, and computed by number: batch norm's
        running statistics depend on the order (S4.6).

        Raises:
            TurnLost: an earlier micro-batch failed or is missing.
        """
        if isinstance(x, torch.Tensor):
            return self.compute(x)
        assert number is not None
        here = x.to_here(timeout=self.timeout).to(self.device)
        self._settle()
        return self._turnstile.run(number, lambda: self._compute(here, number))

    def _compute(self, x: torch.Tensor, number: int) -> torch.Tensor:
        """In the turnstile's thread."""
        if number % self.num_split == 0:
            self._chain.restart()
        out: torch.Tensor = self._chain(x)
        out = out.cpu() if self.to_cpu else out
        self._settle()
        return out

    def _settle(self) -> None:
        """Another thread goes on with a GPU's tensors, on a stream of its own: let this one's be done."""
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()

    def parameter_rrefs(self) -> list[RRef[Any]]:
        """Made here, on the owner: a parameter that travels arrives as a detached copy (S3.3)."""
        return [RRef(p) for p in self.parameters()]

    def values(self) -> tuple[Named, Named]:
        """Copies of all parameters and of all buffers, on the CPU."""
        return on_cpu(dict(self.named_parameters())), on_cpu(dict(self.named_buffers()))

    def gradients(self, context_id: int) -> Named:
        """This shard's gradients in that autograd context, on the CPU."""
        gradients = dist_autograd.get_gradients(context_id)  # type: ignore[attr-defined]
        return on_cpu({name: gradients[p] for name, p in self.named_parameters() if p in gradients})


def on_cpu(tensors: Named) -> Named:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}


class SequentialShard(Shard):
    """A shard of any module, for instance an ``nn.Sequential``."""

    def __init__(self, make: Callable[[], nn.Module], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seq = make().to(self.device)

    def compute(self, x: torch.Tensor) -> torch.Tensor:
        return self.seq(x)  # type: ignore[no-any-return]


class DistPipeline(nn.Module):
    """Runs on the master: two shards on two workers, fed with ``num_split`` micro-batches of every batch.

    ``shards`` are what is called on the first and the second worker to make their `Shard`: importable functions.
    """

    def __init__(self, num_split: int, workers: Sequence[str], shards: Sequence[Callable[..., Shard]]) -> None:
        super().__init__()
        self.num_split = num_split
        self.admitted = 0
        self.p1_rref = rpc.remote(workers[0], shards[0])
        self.p2_rref = rpc.remote(workers[1], shards[1])
        # Asked for now. A proxy's first call asks the owner for the object's type and goes on in another thread, where
        # no autograd context is: made by `forward`, it would lose the gradients without a word.
        self._parameter_rrefs = [*self.p1_rref.remote().parameter_rrefs().to_here()]
        self._parameter_rrefs += self.p2_rref.remote().parameter_rrefs().to_here()

    def forward(self, xs: torch.Tensor) -> torch.Tensor:
        """Outputs (batch, …) for ``xs`` (batch, …), which is split into ``num_split`` parts, as equal as can be.

        Published: split into parts of ``num_split`` images (S4.3).
        """
        out_futures = []
        for number, x in enumerate(xs.tensor_split(self.num_split), start=self.admitted):
            x_rref = RRef(x)
            y_rref = self.p1_rref.remote().forward(x_rref, number)
            z_fut = self.p2_rref.rpc_async().forward(y_rref, number)
            out_futures.append(z_fut)
        self.admitted += self.num_split
        return torch.cat(torch.futures.wait_all(out_futures))

    def parameter_rrefs(self) -> list[RRef[Any]]:
        """Of all parameters of both shards, for the distributed optimizer."""
        return self._parameter_rrefs

    def values(self) -> tuple[Named, Named]:
        """Parameters and buffers of both shards, as ``shard1.…`` and ``shard2.…``."""
        return joined(*(rref.rpc_sync().values() for rref in (self.p1_rref, self.p2_rref)))

    def gradients(self, context_id: int) -> Named:
        """Of both shards, in that context."""
        first, second = (rref.rpc_sync().gradients(context_id) for rref in (self.p1_rref, self.p2_rref))
        return joined((first, {}), (second, {}))[0]


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
