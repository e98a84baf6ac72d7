"""Find the stages of a run that do not follow from the run's own numbers.

A trace holds a run's losses, gradients, parameters and buffers, step by step. The twin follows the run: it records what
it computes, and goes on from what the run has in its place. So a gradient is compared with that at the run's own
parameters, an update with that by the run's own gradients, and a mistake shows in the stage in which it is, not in all
that come after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any

import torch

from reference.explain.difference import close, same_bits
from reference.rounding.bound import Undecided, error_ratio, twin_errors
from reference.rounding.reordering import twins_for
from reference.trace.names import in_causal_order, own_name, parameter_before, place_of
from reference.trace.recorder import following
from reference.trace.trace import Named, Trace

Train = Callable[..., Trace]
# A step and a kind of tensor, such as (3, "gradient").
Place = tuple[int, str]

# The reordered twins whose errors say what rounding may do in one stage, and by how much their sum is multiplied.
# A bound on a whole run takes four times as many, which have to be computed once.
ORDERS = 4


def follow(run: Trace, train: Train) -> Trace:
    """Return what the twin computes of each of the run's numbers, in the order of cause."""
    with following(run.tensors):
        found = train(run.case, run)
    return Trace(found.case, {name: found.tensors[name] for name in in_causal_order(found.tensors)})


@dataclass(frozen=True)
class Stages:
    """The stages of a run, each computed again from the run's own numbers.

    ``run``: with the reference's names, shapes and dtypes, if any are missing; ``followed``: what the twin computes;
    ``wrong``: the tensors that are another than rounding explains, in the order of cause; ``acted``: the step from
    which on only updates are left (`until_other_actions`); ``noise``: by tensor, what rounding changes in an
    element.
    """

    run: Trace
    followed: Trace
    wrong: Sequence[str]
    acted: int | None = None
    noise: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def places(self) -> dict[Place, list[str]]:
        """The wrong tensors by step and kind."""
        found: dict[Place, list[str]] = {}
        for name in self.wrong:
            found.setdefault(place_of(name), []).append(name)
        return found

    def names(self, place: Place) -> list[str]:
        """All tensors of this place that both sides have."""
        return [name for name in self.followed.tensors if place_of(name) == place and name in self.run.tensors]

    def steps(self, kind: str) -> list[int]:
        return sorted({step for step, each in map(place_of, self.run.tensors) if each == kind})


def stages_of(run: Trace, train: Train) -> Stages:
    """Compute each stage of a run again, from the run's own numbers.

    Raises:
        Undecided: rounding decides what twins do that follow the run, so no stage can be judged.
    """
    found = follow(run, train)
    names = [name for name in found.tensors if name in run.tensors]
    differing = [name for name in names if not same_bits(run.tensors[name], found.tensors[name])]
    if not differing or not hasattr(run.case, "dtype"):
        return Stages(run, found, differing)

    last = max(place_of(name)[0] for name in names)

    def of_run(twin: Trace) -> Trace:
        """Leave out later steps than the run's last: after the end of a run that diverges, its twins may have NaN."""
        return Trace(twin.case, {name: each for name, each in twin.tensors.items() if place_of(name)[0] <= last})

    with following(run.tensors):
        others, exact = twins_for(found, run, train, ORDERS)
        errors = twin_errors(map(of_run, others), of_run(exact))
    if errors.unusable or not errors.counted:
        raise Undecided(errors.unusable or "all twins take other decisions than the float64 twin")
    # The numbers of an exact case are exact up to the first difference.
    first = place_of(differing[0]) if run.case.is_exact else None
    beyond = {name for name in differing if error_ratio(name, run.tensors[name], errors) > ORDERS}
    noise = {name: ORDERS * largest for name, (_, largest) in errors.sums.items()}
    return Stages(run, found, [name for name in differing if place_of(name) == first or name in beyond], noise=noise)


def until_other_actions(stages: Stages, reference: Named) -> Stages:
    """Leave out what comes after an agent's actions that are not those of ``reference``, but for updates.

    They lead to other states than those that the run was given or has seen; an update follows from gradients alone. Of
    the step in which they begin, what leads to them is left if the first mistake is there.
    """
    both, names = (stages.run.tensors, stages.followed.tensors), [*stages.followed.tensors]
    actions = [name for name in names if "actions" in name.split("/") and name in stages.run.tensors]
    other = [name for name in actions if not all(same_bits(each[name], reference[name]) for each in both)]
    if not other:
        return stages
    step = place_of(other[0])[0]
    last = [name for name in other if place_of(name)[0] == step][-1]
    if place_of(stages.wrong[0])[0] == step:
        kept = set(names[: names.index(last) + 1])
    else:
        kept = {name for name in names if place_of(name)[0] < step}
    kept |= {name for name in names if place_of(name)[1] == "parameter"}
    if stages.wrong[0] not in kept:
        return stages
    run, followed = (
        Trace(each.case, {name: tensor for name, tensor in each.tensors.items() if name in kept})
        for each in (stages.run, stages.followed)
    )
    return Stages(run, followed, [name for name in stages.wrong if name in kept], step, stages.noise)


# What a mistake makes of a tensor of the stage; None if it says nothing about that tensor.
Candidate = Callable[[str], torch.Tensor | None]


@dataclass(frozen=True)
class Cause:
    """``id`` is permanent; ``text`` says what a program does that makes the mistake.

    ``everywhere``: it must give the wrong tensors of this kind in all steps, not in the first step that fails alone.
    """

    id: str
    text: str
    candidate: Candidate
    everywhere: bool = False


@dataclass
class Failed:
    """The stage that is explained. ``first``: the first wrong tensor in it."""

    stages: Stages
    place: Place
    train: Train

    @property
    def first(self) -> str:
        return self.stages.places[self.place][0]

    @property
    def case(self) -> Any:
        return self.stages.run.case

    @property
    def yours(self) -> Named:
        return self.stages.run.tensors

    @property
    def right(self) -> Named:
        """What the reference computes of the run's own earlier numbers."""
        return self.stages.followed.tensors

    def at(self, step: int, name: str) -> torch.Tensor | None:
        """The right numbers of the same tensor at another step."""
        return self.right.get(f"{step:04d}/{name.partition('/')[2]}")

    def before(self, name: str) -> torch.Tensor | None:
        """The run's parameter before this update."""
        return self.yours.get(parameter_before(place_of(name)[0], own_name(name)))

    def fits(self, cause: Cause) -> str:
        """``bits`` or ``rounding`` if the cause gives every wrong tensor that it speaks of; or empty."""
        here = self.stages.places[self.place]
        of_kind = [name for name in self.stages.wrong if place_of(name)[1] == self.place[1]]
        given = {name: cause.candidate(name) for name in (of_kind if cause.everywhere else here)}
        values = {name: value for name, value in given.items() if value is not None}
        wanted, right, noise = values.get(self.first), self.right[self.first], self.stages.noise
        if wanted is None or same_bits(wanted, right):
            return ""
        if not all(close(value, self.yours[name], noise=noise.get(name, 0.0)) for name, value in values.items()):
            return ""
        if all(same_bits(values[name], self.yours[name]) for name in here if name in values):
            return "bits"
        return "" if close(wanted, right, noise=noise.get(self.first, 0.0)) else "rounding"

    def again(
        self,
        patch: AbstractContextManager[object] | None = None,
        tensors: Named | None = None,
        fields: Mapping[str, Any] = MappingProxyType({}),
    ) -> Candidate:
        """Let the twin compute the stage again, under a patch, from other numbers, or with other fields of the case."""

        @cache
        def made() -> Named:
            with following(self.yours if tensors is None else tensors), patch or nullcontext():
                return self.train(replace(self.case, **fields), self.stages.run).tensors

        return lambda name: made().get(name)
