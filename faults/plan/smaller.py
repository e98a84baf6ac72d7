"""List the plans that are one step smaller than a plan: fewer faults first, then fewer fields, then simpler values.

The order is that of `faults.strategies`, in which Hypothesis shrinks. A smaller fault hits less: one role is less than
all roles, so no step leaves out a `role`; what heals is less than what does not, so none leaves out ``seconds``.
Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from faults.plan.fields import FIELDS, allowed_fields, required_fields
from faults.plan.plan import Fault, Plan, PlanError
from faults.plan.simpler_values import simpler

# The number of a fault -> the calls that it hit, each as its caller and number, in the order in which they were hit.
Hits = Mapping[int, Sequence[tuple[str, int]]]

_OCCURRENCES = ("nth", "every", "chance_percent")
# Without one of these a fault would hit more, not less.
_KEPT = ("role", "peer", "seconds", *_OCCURRENCES)
# The most calls that are tried in place of a fault which hits several.
_CALLS = 8


@dataclass(frozen=True)
class Smaller:
    """A smaller plan. ``kept``: the numbers of the larger plan's faults that it still has; ``slot``: what was made
    smaller. Later steps have larger slots."""

    slot: tuple[Any, ...]
    plan: Plan
    kept: tuple[int, ...]


def smaller_plans(plan: Plan, hits: Hits, *, alone_first: bool = False) -> Iterator[Smaller]:
    """Yield every valid plan that is one step smaller.

    ``hits``: what a run under ``plan`` has shown; ``alone_first``: try each fault alone before halves of the faults.
    """
    everything = tuple(range(len(plan.faults)))
    for kept in _fewer(len(everything), alone_first):
        yield from _made((0,), [plan.faults[number] for number in kept], plan.seed, kept)
    for stage, changes in enumerate((_at_one_call, _of_one_role, _without_fields, _with_simpler_values), 1):
        for number, fault in enumerate(plan.faults):
            for place, values in changes(fault, hits.get(number, ())):
                changed = [*plan.faults]
                with suppress(PlanError):
                    changed[number] = Fault.from_dict(values)
                    yield from _made((stage, number, place), changed, plan.seed, everything)
    if plan.seed:
        yield from _made((5,), plan.faults, 0, everything)


def _made(slot: tuple[Any, ...], faults: Sequence[Fault], seed: int, kept: tuple[int, ...]) -> Iterator[Smaller]:
    """Yield the plan, if it is one: faults may contradict each other. A seed that decides nothing becomes 0."""
    drawn = any(fault.chance_percent is not None or fault.kind == "Corrupt" for fault in faults)
    with suppress(PlanError):
        yield Smaller(slot, Plan(tuple(faults), seed if drawn else 0), kept)


def _fewer(count: int, alone_first: bool) -> Iterator[tuple[int, ...]]:
    """Yield which faults to keep, at least one: all but a half, all but a quarter, ..., all but one."""
    if alone_first and count > 1:
        yield from ((number,) for number in range(count))
    size = count // 2
    while size:
        for begin in range(0, count, size):
            yield tuple(number for number in range(count) if not begin <= number < begin + size)
        size //= 2


# The place of a field in `FIELDS`, and the changed fault's fields.
Changes = Iterator[tuple[int, dict[str, Any]]]


def _at_one_call(fault: Fault, hits: Sequence[tuple[str, int]]) -> Changes:
    """Yield the fault at one of the calls that it hit, if it may hit several."""
    rest = {name: value for name, value in fault.to_dict().items() if name not in _OCCURRENCES}
    if fault.kind == "Order" and fault.nth is None:
        yield 0, {**rest, "nth": 1}
    elif fault.place == "call" and fault.kind != "Order" and (fault.nth is None or fault.role is None):
        for role, nth in _some(list(dict.fromkeys(hits))):
            yield 0, {**rest, "role": role, "nth": nth}


def _of_one_role(fault: Fault, hits: Sequence[tuple[str, int]]) -> Changes:
    """Yield the fault at all the calls of one role, if it may hit several roles."""
    if fault.place == "call" and fault.kind != "Order" and fault.nth is None and fault.role is None:
        for role in dict.fromkeys(role for role, _ in hits):
            yield 0, {**fault.to_dict(), "role": role}


def _without_fields(fault: Fault, hits: Sequence[tuple[str, int]]) -> Changes:
    values = fault.to_dict()
    removable = set(allowed_fields(fault.kind, fault.place)) - {*required_fields(fault.kind, fault.place), *_KEPT}
    for place, name in enumerate(FIELDS):
        if name in removable and name in values:
            yield place, {each: value for each, value in values.items() if each != name}


def _some(calls: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Yield the calls, or if they are many, some of them, evenly spread, with the first and the last."""
    last = len(calls) - 1
    places = range(len(calls)) if len(calls) <= _CALLS else (last * each // (_CALLS - 1) for each in range(_CALLS))
    for place in places:
        yield calls[place]


def _with_simpler_values(fault: Fault, hits: Sequence[tuple[str, int]]) -> Changes:
    """Yield the fault with one value that is simpler, the simplest first."""
    values = fault.to_dict()
    for place, name in enumerate(FIELDS):
        if name in values:
            for value in simpler(fault.kind, name, values[name]):
                yield place, {**values, name: value}
