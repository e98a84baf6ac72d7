"""Train two remote parameters by distributed autograd: a forward sum, a backward pass over RPC, a distributed step.

Source: seed 003 (distributed autograd and the distributed optimizer; "several contexts can exist at once over the
same parameters").

Roles: ``worker0`` trains and returns the trace; ``worker1`` and ``worker2`` own one (side, side) parameter each.
Every step runs ``contexts`` passes at once, each in its own thread and its own autograd context. All passes finish
their backward pass before the first optimizer step; then their gradients are applied in the order of the passes.
Pass c has the loss (c + 1) × Σ (p1 + p2)².
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
import torch.distributed.autograd as dist_autograd  # the module: `context` alone has no `context` (S0.18)
import torch.distributed.rpc as rpc
from torch import optim
from torch.distributed.optim import DistributedOptimizer
from torch.distributed.rpc import RRef

from reference.exact.exactness import proven
from reference.roles import Roles, numbered
from reference.rpc.timeouts import rpc_timeout
from reference.trace import checkpoint
from reference.trace.case import number_field
from reference.trace.recorder import Recorder
from reference.trace.trace import Trace
from reference.training.placement import one_thread
from reference.training.rng import generator
from reference.training.training_case import ExactableCase

OWNERS = numbered("worker", 2)

# --- The lesson: one pass through parameters that live elsewhere, in a context of its own ----------------------------


def create_parameter(case: Case, owner: str) -> torch.Tensor:
    """Runs on ``owner``: make a (side, side) leaf that requires gradients.

    It is a plain tensor, not an nn.Parameter: an nn.Parameter that is fetched from another worker is a detached copy,
    and the optimizer would step without gradients and without an error (S3.3).
    """
    draws = generator(case.seed, owner)
    shape = (case.side, case.side)
    if case.is_exact:
        values = torch.randint(-4, 5, shape, generator=draws).float()
    else:
        values = torch.randn(shape, generator=draws)
    return values.to(case.torch_dtype).requires_grad_()


def loss_of(context: int, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (context + 1) * (a + b).pow(2).sum()


# One context's loss and gradients. These are copies, because those on the owners go with the context.
Pass = tuple[torch.Tensor, dict[str, torch.Tensor]]


class Trainer:
    """Runs on worker0: trains the two remote parameters."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.parameters = {name: rpc.remote(name, create_parameter, args=(case, name)) for name in OWNERS}
        self.optimizer = DistributedOptimizer(optim.SGD, list(self.parameters.values()), lr=case.lr)
        self.all_backward = threading.Barrier(case.contexts, timeout=case.timeout)
        self.turns = [threading.Event() for _ in range(case.contexts)]

    def train_in_context(self, context: int) -> Pass:
        """Run the forward pass, the backward pass and the step of one context, in a thread of its own.

        Raises:
            threading.BrokenBarrierError: another context failed, or did not finish its backward pass in time.
            TimeoutError: the context before this one did not make its step in time.
        """
        with dist_autograd.context() as context_id:
            try:
                a, b = (self.parameters[name].to_here() for name in OWNERS)
                loss = loss_of(context, a, b)
                dist_autograd.backward(context_id, [loss])  # type: ignore[attr-defined]
            except BaseException:
                self.all_backward.abort()  # the other contexts must not wait for this one
                raise
            self.all_backward.wait()
            try:
                gradients = self.on_owners(gradient, context_id) if self.case.record == "every" else {}
                if context > 0 and not self.turns[context - 1].wait(self.case.timeout):
                    raise TimeoutError(f"context {context} waited {self.case.timeout} s for context {context - 1}")
                self.optimizer.step(context_id)
            finally:
                self.turns[context].set()  # also if this one has failed: the next one need not wait for it
        return loss.detach(), {f"context{context}/{name}": tensor for name, tensor in gradients.items()}

    def values(self) -> dict[str, torch.Tensor]:
        """The current values of both parameters."""
        return self.on_owners(value)

    def on_owners(self, function: Callable[..., Any], *args: object) -> dict[str, Any]:
        """Call a function with each parameter's RRef on its owner."""
        return {name: rpc.rpc_sync(name, function, args=(rref, *args)) for name, rref in self.parameters.items()}


def results_of(contexts: Sequence[Future[Pass]]) -> list[Pass]:
    """Wait for all contexts. Raises the first error that is not only that another one has failed."""
    errors = [error for each in contexts if (error := each.exception()) is not None]
    if errors:
        raise next((error for error in errors if not isinstance(error, threading.BrokenBarrierError)), errors[0])
    return [each.result() for each in contexts]


def gradient(parameter: RRef[Any], context_id: int) -> torch.Tensor:
    """Runs on the owner: the parameter's gradient in that context, which is never in ``.grad``."""
    gradients = dist_autograd.get_gradients(context_id)  # type: ignore[attr-defined]
    return gradients[parameter.local_value()]


def resume(parameter: RRef[Any]) -> None:
    """Runs on the owner: go on from the parameter's last checkpoint."""
    checkpoint.resume(parameter=parameter.local_value())


def save(parameter: RRef[Any], step: int) -> None:
    """Runs on the owner: save the parameter after ``step`` steps."""
    checkpoint.save(step, parameter=parameter.local_value())


def value(parameter: RRef[Any]) -> torch.Tensor:
    """Runs on the owner: the parameter's current value."""
    return parameter.local_value().detach()  # type: ignore[no-any-return]


# --- Roles and Case --------------------------------------------------------------------------------------------------


def run_trainer(case: Case) -> Trace:
    """Run worker0: in every step run all contexts at once, each in a thread of its own."""
    with rpc_timeout(case.timeout):
        trainer = Trainer(case)
        recorder = Recorder(case, trainer.values())
        start = checkpoint.resume(trace=recorder)
        if start:
            trainer.on_owners(resume)
        with ThreadPoolExecutor(case.contexts) as threads:
            for step in range(start, case.steps):
                passes = results_of([threads.submit(trainer.train_in_context, c) for c in range(case.contexts)])
                losses = {f"context{c}": loss for c, (loss, _) in enumerate(passes)}
                gradients = {name: tensor for _, named in passes for name, tensor in named.items()}
                recorder.step(step, losses, trainer.values() if recorder.wants(step) else {}, gradients)
                for turn in trainer.turns:
                    turn.clear()
                if checkpoint.due(step + 1):
                    trainer.on_owners(save, step + 1)
                    checkpoint.save(step + 1, trace=recorder)
        return recorder.trace()


def roles(case: Case) -> Roles:
    return Roles({"worker0": partial(run_trainer, case)}, serving=OWNERS)


@dataclass(frozen=True)
class Case(ExactableCase):
    """Five steps over 3 × 3 parameters; the talk names SGD and no sizes."""

    steps: int = number_field(5, "number of optimizer steps in each context", at_least=1)
    side: int = number_field(3, "rows and columns of both parameters", at_least=1, at_most=4096)
    contexts: int = number_field(2, "number of autograd contexts open at once", at_least=1, at_most=16)
    lr: float = number_field(0.05, "learning rate of SGD", at_least=0.0)

    EXACT: ClassVar[Mapping[str, Any]] = {"dtype": "float64", "lr": 0.125}

    def validate(self) -> None:
        self.require_exact("lr")


# --- The twin: the same in one process -------------------------------------------------------------------------------


@one_thread()
@proven
def train_locally(case: Case, replay: Trace | None = None) -> Trace:
    """The twin: compute every context's gradients at the same parameters, then apply each in turn by plain SGD."""
    parameters = {name: create_parameter(case, name) for name in OWNERS}
    optimizer = optim.SGD(parameters.values(), lr=case.lr)
    recorder = Recorder(case, parameters)
    for step in range(case.steps):
        losses = {f"context{c}": loss_of(c, *parameters.values()) for c in range(case.contexts)}
        gradients = [torch.autograd.grad(loss, list(parameters.values())) for loss in losses.values()]
        named = {
            f"context{c}/{name}": tensor
            for c, each in enumerate(gradients)
            for name, tensor in zip(OWNERS, each, strict=True)
        }
        recorder.before_update(step, parameters, named)
        for each in gradients:
            for parameter, tensor in zip(parameters.values(), each, strict=True):
                parameter.grad = tensor
            optimizer.step()
        recorder.step(step, losses, parameters, named)
    return recorder.trace()
