"""Everything that an implementation is given for one case: no generator of random numbers has to be re-implemented.

Names are ``initial/…`` (parameters and buffers before the first step), ``data/ROLE/STEP/…`` (what a role is given at a
step) and ``draws/…`` (random factors). The tutorial's own functions make the tensors, so a run has the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from reference import load
from reference.conform.dropout_factors import dropout_factors
from reference.conform.episodes import batch_episodes, episodes
from reference.trace.trace import Trace
from reference.training.corpus import Corpus
from reference.training.worker_order import as_tensors, by_turns

Tensors = dict[str, torch.Tensor]


def inputs_of(case: Any, twin: Trace) -> Tensors:
    """Return the inputs of a case, whose twin's trace is ``twin``."""
    initial = {name: tensor for name, tensor in twin.tensors.items() if name.startswith("initial/")}
    return {**initial, **_MAKERS[case.tutorial()](case, twin)}


def replay_of(case: Any) -> Trace | None:
    """Return the order of events that the suite prescribes, as a trace to replay; None if the case has no order."""
    if case.tutorial() == "parameter_server":
        return Trace(case, {"order/events": as_tensors(by_turns(case.workers, case.steps))["events"]})
    return None


def _by_step(role: str, names: tuple[str, ...], batches: Iterable[tuple[Any, ...]]) -> Tensors:
    """Name a role's batches by step."""
    return {
        f"data/{role}/{step:04d}/{name}": tensor
        for step, batch in enumerate(batches)
        for name, tensor in zip(names, batch, strict=True)
    }


def _rpc_basics(case: Any, _: Trace) -> Tensors:
    drawn = (load("rpc_basics").inputs(case, step) for step in range(case.steps))
    return _by_step("caller", ("x", "y"), drawn)


def _rref_dataflow(case: Any, _: Trace) -> Tensors:
    make = load("rref_dataflow").make
    found: Tensors = {}
    for role, name in (("worker1", "a"), ("worker2", "b")):
        found |= _by_step(role, (name,), ((make(case.seed, f"{role}/{s}", case.side),) for s in range(case.steps)))
    return found


def _nothing(_: Any, __: Trace) -> Tensors:
    return {}


def _parameter_server(case: Any, twin: Trace) -> Tensors:
    module = load("parameter_server")
    found = {"order/events": twin.tensors["order/events"]}
    for worker in module.worker_names(case):
        found |= _by_step(worker, ("data", "target"), module.batches(case, worker))
    return found


def _images(case: Any, _: Trace) -> Tensors:
    module = load("batch_parameter_server")
    model = module.initial_model(case)
    found = {f"initial/{name}": buffer for name, buffer in model.named_buffers()}
    for trainer in module.trainer_names(case):
        found |= _by_step(trainer, ("inputs", "labels"), module.Trainer(case, trainer).get_next_batch())
    return found


def _pipeline(case: Any, _: Trace) -> Tensors:
    module = load("pipeline")
    buffers = module.values_of([module.make_shard(case, half) for half in (1, 2)])[1]
    found = {f"initial/{name}": buffer for name, buffer in buffers.items()}
    return found | _by_step("master", ("inputs", "labels"), module.batches(case))


def _hybrid_ddp(case: Any, _: Trace) -> Tensors:
    module = load("hybrid_ddp")
    found: Tensors = {}
    for trainer in module.trainer_names(case):
        found |= _by_step(trainer, ("indices", "target"), module.get_next_batch(case, trainer))
    return found


def _rnn(case: Any, _: Trace) -> Tensors:
    batches = load("rnn").batches(case, Corpus(case.read()))
    found = _by_step("trainer", ("tokens", "target"), ((data, target) for _, data, target in batches))
    return found | dropout_factors(case)


def _reinforce(case: Any, twin: Trace) -> Tensors:
    return dict(episodes(case, twin))


def _batch_reinforce(case: Any, twin: Trace) -> Tensors:
    return dict(batch_episodes(case, twin))


_MAKERS: dict[str, Callable[[Any, Trace], Tensors]] = {
    "rpc_basics": _rpc_basics,
    "rref_dataflow": _rref_dataflow,
    "dist_autograd": _nothing,
    "parameter_server": _parameter_server,
    "batch_parameter_server": _images,
    "sharded_parameter_server": _images,
    "reinforce": _reinforce,
    "batch_reinforce": _batch_reinforce,
    "rnn": _rnn,
    "pipeline": _pipeline,
    "hybrid_ddp": _hybrid_ddp,
}

# What a trace has and no other implementation can have: what torch's exceptions become, bytes that the kernel counts,
# numbers that a callee draws.
_OWN = ("typed/", "payloads/", "randn/")


def outputs_of(twin: Trace, inputs: Tensors) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield name and tensor of everything that an implementation has to compute."""
    for name, tensor in twin.tensors.items():
        step, _, rest = name.partition("/")
        given = name in inputs or (step.isdigit() and rest.startswith(("rewards", "steps/rewards", *_OWN)))
        if not given:
            yield name, tensor
