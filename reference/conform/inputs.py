"""Everything that an implementation is given for one case: no generator of random numbers has to be re-implemented.

Names are ``initial/…`` (parameters and buffers before the first step), ``data/ROLE/STEP/…`` (what a role is given at a
step) and ``draws/…`` (random factors). The tutorial's own functions make the tensors, so a run has the same ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from reference import load
from reference.conform.suite import PROTOCOL, Entry
from reference.conform.tensor_file import BFLOAT16, Array, dtype_name
from reference.roles import numbered
from reference.trace.case import Case
from reference.trace.names import DETAILS, place_of
from reference.trace.recorder import following
from reference.trace.trace import Trace
from reference.training import cartpole
from reference.training.data import Corpus
from reference.training.rng import seeded
from reference.verify.verify import KnownErrors, case_of

# In which order an implementation has to add or apply what several roles send, by tutorial.
ORDER = {
    **dict.fromkeys(("rpc_basics", "rref_dataflow", "rnn"), "one role computes everything"),
    "parameter_server": "order/events has one row (kind, worker) per call: kind 0 pulls, kind 1 pushes; worker from 0",
    "batch_parameter_server": "gradients are added in the trainers' order, trainer1 first",
    "sharded_parameter_server": "gradients are added in the trainers' order, trainer1 first",
    "hybrid_ddp": "gradients are added in the trainers' order, trainer1 first",
    "pipeline": "micro-batches run in the order of their images",
    "dist_autograd": "all passes compute at the same parameters; their gradients are applied pass after pass",
    "reinforce": "the observers' gradients are added in their order, observer1 first",
    "batch_reinforce": "without batch the observers' gradients are added in their order, observer1 first",
}


@dataclass(frozen=True)
class Prepared:
    """One case with all that its twin gives: what an implementation gets, and what it has to return.

    ``optional``: what it may return, in the order in which the twin computes it. The twin's trace does not have it.
    ``errors``: those of its twins, once an answer had to be judged by them.
    """

    entry: Entry
    case: Case
    twin: Trace
    inputs: dict[str, Array]
    outputs: dict[str, Array]
    optional: dict[str, Array]
    errors: KnownErrors = field(default_factory=dict, compare=False)

    def describe(self) -> dict[str, Any]:
        """Return the content of ``case.json``."""
        tutorial = self.entry.tutorial
        return {
            "protocol": PROTOCOL,
            "id": self.entry.id,
            "tutorial": tutorial,
            "case": json.loads(self.case.to_json()),
            "order": ORDER[tutorial],
            "inputs": _shapes(sorted(self.inputs.items())),
            "outputs": _shapes(sorted(self.outputs.items())),
            "optional": _shapes(self.optional.items()),
            "requirements": _requirements_of(self.case),
            "specification": f"docs/conformance/{tutorial}.md",
        }


def _requirements_of(case: Case) -> list[str]:
    """The ids of the requirements that a case shows."""
    if case.is_exact:
        return ["TENSORS", "EXACT"]
    return ["TENSORS", "BOUND", "BITS"] if hasattr(case, "dtype") else ["TENSORS", "VALUES"]


def prepare(entry: Entry) -> Prepared:
    """Run a case's twin, and sort its tensors into inputs and outputs.

    Raises:
        NotExact: the case is exact and an operation of its twin rounds.
    """
    case = case_of(entry.tutorial, entry.fields)
    with following({}):
        detailed: Trace = load(entry.tutorial).train_locally(case, replay_of(case))
    optional = {name: tensor for name, tensor in detailed.tensors.items() if place_of(name)[1] in DETAILS}
    twin = Trace(case, {name: tensor for name, tensor in detailed.tensors.items() if name not in optional})
    inputs = inputs_of(case, twin)
    outputs = dict(outputs_of(twin, inputs))
    return Prepared(entry, case, twin, _arrays(inputs), _arrays(outputs), _arrays(optional))


def _arrays(tensors: dict[str, torch.Tensor]) -> dict[str, Array]:
    return {name: array_of(tensor) for name, tensor in tensors.items()}


def array_of(tensor: torch.Tensor) -> Array:
    """Return the tensor's numbers as an array of one of `DTYPES`."""
    plain = tensor.detach().cpu().contiguous()
    array: Array = (plain.view(torch.int16) if plain.dtype == torch.bfloat16 else plain).numpy()
    return array.view(BFLOAT16) if plain.dtype == torch.bfloat16 else array


def tensor_of(array: Array) -> torch.Tensor:
    """Return the same numbers as a tensor that shares no memory with the array."""
    if array.dtype == BFLOAT16:
        return torch.from_numpy(np.array(array.view("<i2"))).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def _shapes(arrays: Iterable[tuple[str, Array]]) -> list[dict[str, Any]]:
    return [{"name": name, "dtype": dtype_name(array), "shape": list(array.shape)} for name, array in arrays]


def dropout_factors(case: Any) -> dict[str, torch.Tensor]:
    """Draw the factors of every step, as torch draws them in a forward pass; nothing if the case drops nothing.

    ``draws/emb_table/STEP`` (sequence, batch_size, ninp) are for the embeddings, ``draws/rnn/STEP``
    (nlayers - 1, sequence, batch_size, nhid) for the outputs of each layer but the last, and ``draws/decoder/STEP``
    (sequence, batch_size, nhid) for those of the last.
    """
    if case.dropout == 0:
        return {}
    places = {"emb_table": (1, case.ninp), "rnn": (case.nlayers - 1, case.nhid), "decoder": (1, case.nhid)}
    found = {}
    for step in range(case.steps):
        for part, (count, width) in places.items():
            shape = (case.sequence, case.batch_size, width)
            with seeded(case.seed, f"{part}/{step}"):
                drawn = [F.dropout(torch.ones(shape, dtype=case.torch_dtype), case.dropout) for _ in range(count)]
            if drawn:
                found[f"draws/{part}/{step:04d}"] = torch.stack(drawn) if part == "rnn" else drawn[0]
    return found


Pair = tuple[str, torch.Tensor]


def episodes(case: Any, twin: Trace) -> Iterator[Pair]:
    """Play the twin's actions again, and yield what the agents are given.

    For each observer and episode: ``data/OBSERVER/EPISODE/states`` (steps, inputs) are the states before each action,
    ``rewards`` (steps,) what each action earned. The episodes of ``batch_reinforce`` go on in a new start of the
    environment when one ends; ``ends`` (steps,) is 1 at the last step of a start: rewards after it do not count for the
    actions up to it.
    """
    goes_on = case.tutorial() == "batch_reinforce"
    for place, name in enumerate(numbered("observer", case.observers)):
        env = cartpole.seeded_environment(case.env, case.seed, name)
        rng = cartpole.ObserverRng(case, name)
        for episode in range(case.steps):
            of_all, own = f"{episode:04d}/steps/actions", f"{episode:04d}/actions/{name}"
            actions = (twin.tensors[of_all][:, place] if goes_on else twin.tensors[own]).tolist()
            state, _ = env.reset()
            states, rewards, ends = [], [], []
            for step, action in enumerate(actions, start=1):
                states.append(torch.as_tensor(state).to(case.torch_dtype))
                state, reward, terminated, truncated, _ = env.step(action)
                rewards.append(float(reward))
                ends.append(terminated or truncated or step == len(actions))
                if goes_on and ends[-1]:
                    state, _ = env.reset()
            yield from _given(f"{name}/{episode:04d}", states, rewards, rng.episode(case.n_steps))
            if goes_on:
                yield f"data/{name}/{episode:04d}/ends", torch.tensor(ends, dtype=torch.int64)


def _given(place: str, states: list[torch.Tensor], rewards: list[float], draws: cartpole.Draws) -> Iterator[Pair]:
    """``uniforms`` (steps,) choose the actions; ``dropout`` (steps, 128) are the factors of the hidden units."""
    yield f"data/{place}/states", torch.stack(states)
    yield f"data/{place}/rewards", torch.tensor(rewards, dtype=torch.float64)
    yield f"draws/{place}/uniforms", draws.uniforms[: len(states)]
    if draws.dropout_mask is not None:
        yield f"draws/{place}/dropout", draws.dropout_mask[: len(states)]


Tensors = dict[str, torch.Tensor]


def inputs_of(case: Any, twin: Trace) -> Tensors:
    """Return the inputs of a case, whose twin's trace is ``twin``."""
    initial = {name: tensor for name, tensor in twin.tensors.items() if name.startswith("initial/")}
    return {**initial, **_MAKERS[case.tutorial()](case, twin)}


def replay_of(case: Any) -> Trace | None:
    """Return the order of events that the suite prescribes, as a trace to replay; None if the case has no order."""
    turns: Trace | None = load("parameter_server").turns(case) if case.tutorial() == "parameter_server" else None
    return turns


def _by_step(names: tuple[str, ...], given: Mapping[str, Iterable[tuple[Any, ...]]]) -> Tensors:
    """Name each role's batches by step."""
    return {
        f"data/{role}/{step:04d}/{name}": tensor
        for role, batches in given.items()
        for step, batch in enumerate(batches)
        for name, tensor in zip(names, batch, strict=True)
    }


def _rpc_basics(case: Any, _: Trace) -> Tensors:
    drawn = (load("rpc_basics").inputs(case, step) for step in range(case.steps))
    return _by_step(("x", "y"), {"caller": drawn})


def _rref_dataflow(case: Any, _: Trace) -> Tensors:
    make = load("rref_dataflow").make
    found: Tensors = {}
    for role, name in (("worker1", "a"), ("worker2", "b")):
        found |= _by_step((name,), {role: ((make(case.seed, f"{role}/{s}", case.side),) for s in range(case.steps))})
    return found


def _parameter_server(case: Any, twin: Trace) -> Tensors:
    module = load("parameter_server")
    given = {worker: module.batches(case, worker) for worker in module.worker_names(case)}
    return {"order/events": twin.tensors["order/events"], **_by_step(("data", "target"), given)}


def _images(case: Any, _: Trace) -> Tensors:
    module = load("batch_parameter_server")
    found = {f"initial/{name}": buffer for name, buffer in module.initial_model(case).named_buffers()}
    given = {trainer: module.batches(case, trainer) for trainer in module.trainer_names(case)}
    return found | _by_step(("inputs", "labels"), given)


def _pipeline(case: Any, _: Trace) -> Tensors:
    module = load("pipeline")
    buffers = module.joined(*(module.make_shard(case, half).values()[1] for half in (1, 2)))
    found = {f"initial/{name}": buffer for name, buffer in buffers.items()}
    return found | _by_step(("inputs", "labels"), {"master": module.batches(case)})


def _hybrid_ddp(case: Any, _: Trace) -> Tensors:
    module = load("hybrid_ddp")
    given = {trainer: module.get_next_batch(case, trainer) for trainer in module.trainer_names(case)}
    return _by_step(("indices", "target"), given)


def _rnn(case: Any, _: Trace) -> Tensors:
    batches = load("rnn").get_next_batch(case, Corpus(case.read()))
    found = _by_step(("tokens", "target"), {"trainer": ((data, target) for _, data, target in batches)})
    return found | dropout_factors(case)


_MAKERS: dict[str, Callable[[Any, Trace], Tensors]] = {
    "rpc_basics": _rpc_basics,
    "rref_dataflow": _rref_dataflow,
    "dist_autograd": lambda case, twin: {},
    "parameter_server": _parameter_server,
    "batch_parameter_server": _images,
    "sharded_parameter_server": _images,
    "reinforce": lambda case, twin: dict(episodes(case, twin)),
    "batch_reinforce": lambda case, twin: dict(episodes(case, twin)),
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
        rest = name.partition("/")[2]
        if name not in inputs and not rest.startswith(("rewards", "steps/rewards", *_OWN)):
            yield name, tensor
