"""Records a run while it runs: losses, gradients, parameters; and lets a twin follow another run's numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch
from torch import nn

from reference.trace.case import Case
from reference.trace.progress import STEP, log_step
from reference.trace.trace import Named, Trace

# A recorder takes parameters from a module, or as a mapping from names.
Model = nn.Module | Named

_followed: ContextVar[Named | None] = ContextVar("followed", default=None)


@contextmanager
def following(tensors: Named) -> Iterator[None]:
    """Within the block a twin goes on from ``tensors``, another run's, as soon as it has recorded its own.

    So each gradient is computed at the other run's parameters, and each update of its gradients. If ``tensors`` is
    empty, the twin takes nothing, and records all details that it can.
    """
    token = _followed.set(tensors)
    try:
        yield
    finally:
        _followed.reset(token)


def is_following() -> bool:
    """Whether the numbers are another run's, of which nothing is known."""
    return bool(_followed.get())


class Recorder:
    """Collects one run's trace during the run, and logs one line per step."""

    grows = True  # what was recorded never changes, so a checkpoint adds only what is new

    def __init__(self, case: Case, initial: Model, steps: int | None = None) -> None:
        """``initial``: the model before its first step; ``steps``: the number of steps, by default the case's."""
        self.case = case
        self.steps = case.steps if steps is None else steps
        self.tensors: dict[str, torch.Tensor] = {}
        # What only a twin that follows records, in the order in which it is computed.
        self.details: dict[str, torch.Tensor] = {}
        self.followed = _followed.get()
        self._put_and_follow("initial", parameters_of(initial))

    def put(self, prefix: str, named: Named) -> None:
        """Record copies of the tensors in ``named`` under ``prefix``."""
        self.tensors.update(_copies(prefix, named))

    def _put_and_follow(self, prefix: str, named: Named) -> None:
        """Record the tensors, and give them the values of the trace that is followed."""
        self.put(prefix, named)
        for name, tensor in named.items():
            value = None if self.followed is None else self.followed.get(f"{prefix}/{name}")
            if value is not None and value.shape == tensor.shape:
                tensor.detach().copy_(value)

    @property
    def every(self) -> bool:
        """Whether every step's gradients and parameters are recorded."""
        return self.case.record == "every"

    def wants(self, step: int) -> bool:
        """Whether the parameters after ``step`` (from 0) are recorded; those after the last step always are."""
        return self.every or step == self.steps - 1

    def detail(self, step: int, kind: str, named: Callable[[], Named]) -> None:
        """Record, in a twin that follows, what no run has to record: it tells where a mistake is."""
        if self.followed is not None:
            self.details.update(_copies(f"{step:04d}/{kind}", named()))

    @contextmanager
    def outputs(self, step: int, role: str, model: nn.Module) -> Iterator[None]:
        """Record, in a twin that follows, what each layer puts out within the block, as detail ``output/ROLE``.

        Layers are the modules that have no others in them. The outputs of one that runs several times are stacked; none
        are recorded if their shapes differ.
        """
        found: dict[str, list[torch.Tensor]] = {}
        prefix = f"{step:04d}/output/{role}"

        def note(name: str, _: nn.Module, __: object, output: Any) -> None:
            for own, tensor in _tensors_of(name, output).items():
                if not self.followed or f"{prefix}/{own}" in self.followed:
                    found.setdefault(own, []).append(tensor.detach().clone())  # the next layer may change it in place

        modules = () if self.followed is None else model.named_modules()
        layers = {name: each for name, each in modules if not any(each.children())}
        hooks = [each.register_forward_hook(partial(note, name)) for name, each in layers.items()]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
        for name, each in found.items():
            if len({tensor.shape for tensor in each}) == 1:
                self.details.update(_copies(prefix, {name: torch.stack(each) if len(each) > 1 else each[0]}))

    def before_update(self, step: int, model: Model, gradients: Named | None = None) -> None:
        """Tell, in a twin, that the optimizer is about to use the gradients, which default to those in ``.grad``."""
        if self.followed is not None and self.every:
            named = gradients_of(parameters_of(model)) if gradients is None else gradients
            self._put_and_follow(f"{step:04d}/gradient", named)

    def step(self, step: int, losses: Named, model: Model, gradients: Named | None = None) -> None:
        """Record step ``step`` (from 0), and log the mean of its losses if it has any.

        ``model`` is not read if `wants` says so. ``gradients`` default to those in ``.grad``.
        A module's buffers are part of the result, so they are recorded with its parameters.
        """
        self.put(f"{step:04d}/loss", losses)
        parameters = parameters_of(model)
        if self.every and self.followed is None:
            self.put(f"{step:04d}/gradient", gradients_of(parameters) if gradients is None else gradients)
        if self.wants(step):
            self._put_and_follow(f"{step:04d}/parameter", parameters)
            buffers = dict(model.named_buffers()) if isinstance(model, nn.Module) else {}
            self._put_and_follow(f"{step:04d}/buffer", buffers)
        STEP.set(step + 1)
        if losses:
            log_step(step + 1, self.steps, sum(loss.item() for loss in losses.values()) / len(losses))

    def state_dict(self) -> Named:
        """The trace so far, for a checkpoint."""
        return self.tensors

    def load_state_dict(self, state_dict: Named) -> None:
        self.tensors = dict(state_dict)

    def trace(self) -> Trace:
        """Return the trace so far, with tensors in the order of their names; then the details."""
        return Trace(self.case, {**dict(sorted(self.tensors.items())), **self.details})


def parameters_of(model: Model) -> Named:
    """A module's parameters by name, or the mapping itself."""
    return dict(model.named_parameters()) if isinstance(model, nn.Module) else model


def gradients_of(parameters: Named) -> Named:
    """The ``.grad`` of each parameter that has one."""
    return {name: parameter.grad for name, parameter in parameters.items() if parameter.grad is not None}


def _copies(prefix: str, named: Named) -> Named:
    return {f"{prefix}/{name}": tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in named.items()}


def _tensors_of(name: str, output: Any) -> Named:
    """The tensors that a layer called ``name`` puts out; of an LSTM also the last hidden states and cells, by layer."""
    if isinstance(output, torch.Tensor):
        return {name: output}
    last, (hidden, cell) = output
    return {name: last, f"{name}.hidden": hidden, f"{name}.cell": cell}
