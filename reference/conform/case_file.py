"""Describe one case for an implementation, as ``case.json`` does: numbers, order, and the outputs that are wanted."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from reference import load
from reference.conform.catalogue import PROTOCOL, Entry
from reference.conform.inputs import inputs_of, outputs_of, replay_of
from reference.conform.requirements import requirements_of
from reference.conform.tensor_file import Array, dtype_name
from reference.trace.case import Case
from reference.trace.trace import Trace
from reference.verify.verify import KnownErrors, case_of

# In which order an implementation has to add or apply what several roles send, by tutorial.
ORDER = {
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

    ``errors``: those of its twins, once an answer had to be judged by them.
    """

    entry: Entry
    case: Case
    twin: Trace
    inputs: dict[str, Array]
    outputs: dict[str, Array]
    errors: KnownErrors = field(default_factory=dict, compare=False, repr=False)

    def describe(self) -> dict[str, Any]:
        """Return the content of ``case.json``."""
        tutorial = self.entry.tutorial
        return {
            "protocol": PROTOCOL,
            "id": self.entry.id,
            "tutorial": tutorial,
            "case": json.loads(self.case.to_json()),
            "order": ORDER.get(tutorial, "one role computes everything"),
            "inputs": _shapes(self.inputs),
            "outputs": _shapes(self.outputs),
            "requirements": requirements_of(self.case),
            "specification": f"docs/conformance/{tutorial}.md",
        }


def prepare(entry: Entry) -> Prepared:
    """Run a case's twin, and sort its tensors into inputs and outputs.

    Raises:
        NotExact: the case is exact and an operation of its twin rounds.
    """
    case = case_of(entry.tutorial, entry.fields)
    twin: Trace = load(entry.tutorial).train_locally(case, replay_of(case))
    inputs = inputs_of(case, twin)
    outputs = dict(outputs_of(twin, inputs))
    return Prepared(entry, case, twin, _arrays(inputs), _arrays(outputs))


def _arrays(tensors: dict[str, Any]) -> dict[str, Array]:
    return {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in sorted(tensors.items())}


def _shapes(arrays: dict[str, Array]) -> list[dict[str, Any]]:
    return [
        {"name": name, "dtype": dtype_name(array), "shape": list(array.shape)} for name, array in sorted(arrays.items())
    ]
