"""What a pipeline's shards have besides their published code: turns, and gradients in one order (seed 004)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any

import torch
import torch.distributed.autograd as dist_autograd
from torch import nn
from torch.autograd.graph import get_gradient_edge
from torch.distributed.rpc import RRef
from torch.nn.utils.stateless import _reparametrize_module

from reference.trace import checkpoint

Named = dict[str, torch.Tensor]


class Shard(nn.Module):
    """One part of a model, on the worker that owns it. The ``forward`` of a subclass computes within its `turn`.

    Each parameter that requires a gradient takes part in every batch. Otherwise `await_gradients` raises.
    """

    def __init__(self, num_split: int, timeout: float, device: str = "cpu", *, to_cpu: bool = True) -> None:
        super().__init__()
        self.num_split = num_split
        self.timeout = timeout
        self.device = torch.device(device)
        self.to_cpu = to_cpu
        self._turns = Turns(timeout)
        self._chain = ParameterChain(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Show torch all tensors: it pickles the object of an RRef to find them, on a role with device maps.

        Nobody reads the pickle: a shard has locks and cannot be fetched (S4.10).
        """
        return _refuse, ([*self.parameters(), *self.buffers()],)

    @contextmanager
    def turn(self, number: int) -> Iterator[None]:
        """Stand for the published lock: within the block, this thread computes micro-batch ``number``, of all so far.

        Micro-batches are fetched at once, each in the RPC thread of its call, but computed in the order of their
        numbers, because batch norm's running statistics depend on the order (S4.6). Within the block the parameters
        are links of the batch's chain.

        Raises:
            PredecessorFailed: an earlier micro-batch failed or is missing.
        """
        with self._turns.turn(number):
            if number % self.num_split == 0:
                self._settle()
                self._chain.restart()
                self._accumulated.restart()
            with self._chain.link():
                yield
            if self.device.type == "cuda":  # the next turn's thread has a stream of its own
                torch.cuda.current_stream(self.device).synchronize()

    def _settle(self) -> None:
        """Wait until the GPU has done all that earlier calls gave it to do, above all the optimizer's step.

        With device maps each call that this role executes has a stream of its own, and no call waits for another's.
        """
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def parameter_rrefs(self) -> list[RRef[Any]]:
        """RRefs to all parameters, made on their owner, because a parameter that is sent is a detached copy (S3.3)."""
        return [RRef(p) for p in self.parameters()]

    @cached_property
    def _accumulated(self) -> AccumulatedGradients:
        """Made for the first batch, of the parameters that require a gradient then."""
        return AccumulatedGradients(dict(self.named_parameters()))

    def values(self) -> tuple[Named, Named]:
        """Copies of all parameters and of all buffers, on the CPU."""
        self._settle()
        return on_cpu(dict(self.named_parameters())), on_cpu(dict(self.named_buffers()))

    def resume(self) -> None:
        """Go on from this worker's last checkpoint."""
        checkpoint.resume(shard=self)

    def save(self, step: int) -> None:
        """Save this worker's state after ``step`` steps."""
        self._settle()
        checkpoint.save(step, shard=self)

    def await_gradients(self, context_id: int) -> None:
        """Wait until that autograd context has the gradients of this shard (S4.14).

        Raises:
            TimeoutError: one is missing after this shard's timeout. Says which.
        """
        self._accumulated.wait(context_id, self.timeout)

    def gradients(self, context_id: int) -> Named:
        """This shard's gradients in that autograd context, on the CPU. Waits and raises as `await_gradients`."""
        return on_cpu(self._accumulated.wait(context_id, self.timeout))


def _refuse(tensors: list[torch.Tensor]) -> None:
    raise TypeError(f"a shard of {len(tensors)} tensors was fetched, wanted a call of its methods")


def on_cpu(tensors: Mapping[str, torch.Tensor]) -> Named:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}


def joined(*shards: Named) -> Named:
    """The tensors of shards under common names."""
    return {f"shard{i}.{name}": tensor for i, shard in enumerate(shards, 1) for name, tensor in shard.items()}


class PredecessorFailed(RuntimeError):
    """A turn will never come, because one with an earlier number failed or is missing. Says which."""


class PredecessorSilent(PredecessorFailed, TimeoutError):
    """A turn will never come, because one with an earlier number did not begin in time."""


class Turns:
    """Lets threads in one by one, with the numbers 0, 1, 2, … in this order, whatever the order in which they come."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.failure: str | None = None
        self._due = 0
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, number: int) -> Iterator[None]:
        """Wait until the blocks of all earlier numbers have ended. If this block fails, all later turns do.

        Raises:
            PredecessorFailed: an earlier number failed, or this number has had its turn.
            PredecessorSilent: an earlier number did not come within ``timeout`` seconds.
        """
        with self._changed:
            came = self._changed.wait_for(lambda: self.failure is not None or self._due >= number, self.timeout)
            if not came:
                self._fail(f"nothing for {self.timeout:g} s from number {self._due}")
            if self.failure is not None:
                kind = PredecessorFailed if came else PredecessorSilent
                raise kind(f"number {number} cannot run: {self.failure}")
            if self._due > number:
                raise PredecessorFailed(f"number {number} has run before, wanted number {self._due}")
        try:
            yield
        except BaseException as error:
            with self._changed:
                self._fail(f"number {number} failed: {type(error).__name__}: {error}")
            raise
        with self._changed:
            self._due = number + 1
            self._changed.notify_all()

    def _fail(self, reason: str) -> None:
        self.failure = self.failure or reason
        self._changed.notify_all()


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

    @contextmanager
    def link(self) -> Iterator[None]:
        """Put the next links into the place of the module's parameters, for one micro-batch."""
        with _reparametrize_module(self.module, self.links):
            yield
        self.links = {name: link.view_as(link) for name, link in self.links.items()}


class AccumulatedGradients:
    """Knows when the gradient of each parameter is there (S4.14). Runs on their owner, for one pass at a time.

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
        self._late = list(self._parameters)
        self._changed = threading.Condition()
        # A parameter refers weakly to the node that has the hook, so these references keep the hooks. A hook refers to
        # no node, so there is no cycle.
        with torch.enable_grad():  # older versions of torch need it
            self._nodes = [get_gradient_edge(each).node for each in self._parameters.values()]
        for name, node in zip(self._parameters, self._nodes, strict=True):
            node.register_hook(partial(_arrived, self._late, self._changed, name))

    def restart(self) -> None:
        """Begin another pass: before its first gradient, and after the pass before it was waited for or has failed."""
        with self._changed:
            self._late[:] = self._parameters

    def wait(self, context_id: int, timeout: float) -> dict[str, torch.Tensor]:
        """Return all gradients of the pass, which is that context's, as soon as they are there.

        Raises:
            TimeoutError: after ``timeout`` seconds one is still missing. Says which.
            LookupError: they arrived, but in another context.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: not self._late, timeout):
                raise TimeoutError(
                    f"{len(self._late)} of {len(self._parameters)} parameters, among them {self._late[0]!r}, had no "
                    f"gradient {timeout:g} s after the backward pass, wanted one for each"
                )
        gradients = dist_autograd.get_gradients(context_id)  # type: ignore[attr-defined]
        if missing := [name for name, each in self._parameters.items() if each not in gradients]:
            raise LookupError(f"context {context_id} has no gradient of {missing[0]!r}, wanted that of the last pass")
        return {name: gradients[each] for name, each in self._parameters.items()}


def _arrived(late: list[str], changed: threading.Condition, name: str, *_: Any) -> None:
    """Runs in a thread of the backward pass, after the context has got the gradient."""
    with changed:
        if name in late:
            late.remove(name)
        if not late:
            changed.notify_all()
