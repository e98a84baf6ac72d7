"""A broken implementation: the twin with a mistake in it, or the twin's tensors changed afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import torch

from reference import load
from reference.conform.inputs import Prepared, replay_of

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Broken:
    """``cause``: the explainer's id of the mistake; ``told``: words of the explanation. ``case``: the case's id.

    ``fields``: other numbers of the case, for a program that takes no notice of the case's own.
    """

    name: str
    case: str
    cause: str
    told: str
    patch: Callable[[], AbstractContextManager[Any]] = nullcontext
    change: Callable[[Tensors], Tensors] = dict
    verdict: str = "differs"
    fields: Mapping[str, Any] = field(default_factory=dict)

    def tensors(self, healthy: Prepared) -> Tensors:
        """Train with the mistake; returns the tensors of the whole trace."""
        case = replace(healthy.case, **self.fields)
        with self.patch():
            found = load(healthy.entry.tutorial).train_locally(case, replay_of(case))
        return self.change(dict(found.tensors))


def replaced(target: Any, name: str, value: Any) -> Callable[[], AbstractContextManager[Any]]:
    """A patch: ``target`` has another attribute within the block."""
    return lambda: mock.patch.object(target, name, value)


def at(
    step: int, stage: str, change: Callable[[torch.Tensor], torch.Tensor], end: str = ""
) -> Callable[[Tensors], Tensors]:
    """Change the tensors of one stage from ``step`` on whose names have this end."""

    def changed(tensors: Tensors) -> Tensors:
        def wanted(name: str) -> bool:
            return name[:4].isdigit() and int(name[:4]) >= step and f"/{stage}/" in name and name.endswith(end)

        return {name: change(tensor) if wanted(name) else tensor for name, tensor in tensors.items()}

    return changed


def renumbered(tensors: Tensors) -> Tensors:
    """Count steps from 1."""
    return {f"{int(n[:4]) + 1:04d}{n[4:]}" if n[:4].isdigit() else n: tensor for n, tensor in tensors.items()}


def without(stage: str) -> Callable[[Tensors], Tensors]:
    """Leave a stage out."""
    return lambda tensors: {name: tensor for name, tensor in tensors.items() if f"/{stage}/" not in name}


def early(tensors: Tensors) -> Tensors:
    """Record every step's parameters before its update."""
    found = dict(tensors)
    for name in tensors:
        if "/parameter/" in name:
            step, own = name.split("/parameter/")
            found[name] = tensors[f"{int(step) - 1:04d}/parameter/{own}" if int(step) else f"initial/{own}"]
    return found


def late(stage: str) -> Callable[[Tensors], Tensors]:
    """Record every step's tensors of one stage a step late."""

    def changed(tensors: Tensors) -> Tensors:
        found = dict(tensors)
        for name in tensors:
            before = f"{int(name[:4]) - 1:04d}{name[4:]}" if name[:4].isdigit() else ""
            if f"/{stage}/" in name and before in tensors:
                found[name] = tensors[before]
        return found

    return changed


def swapped(first: str, second: str) -> Callable[[Tensors], Tensors]:
    """Exchange two tensors."""
    return lambda tensors: {**tensors, first: tensors[second], second: tensors[first]}
