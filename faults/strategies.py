"""Hypothesis strategies for plans, for properties such as "under any plan the run is right or says why not".

    @given(plans({"shop:Till.pay": {"till1": 6, "till2": 6}}, ["shop", "till1", "till2"], places=["call"]))
    def test_no_plan_makes_the_shop_count_wrong(plan): ...

Every drawn plan is valid; nothing is filtered. A failing plan shrinks towards fewer faults, gentler kinds (`GENTLE`),
the first site and role, earlier and fewer calls (``nth``), smaller sizes, and the seed 0. Only this module of `faults`
needs hypothesis.

A drawn fault may still never fire: two `Order` faults of one site can contradict each other, and the roles of an
`Order` meet only if their calls go to one callee. Give only such sites, or replace those faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import perm
from typing import Any

from faults.plan.kinds import KINDS, NAMES, Kind
from faults.plan.plan import Fault, Plan
from faults.plan.possible_faults import Program, Sites, last_call, program_of

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise ImportError("faults.strategies needs hypothesis: pip install hypothesis") from error

__all__ = ["GENTLE", "PLACES", "faults", "plans"]

PLACES = tuple(dict.fromkeys(kind.place for kind in KINDS))
_GENTLEST_FIRST = sorted(KINDS, key=lambda kind: kind.harm)
# (kind, place), the gentlest first.
GENTLE = tuple((kind.name, kind.place) for kind in _GENTLEST_FIRST)
SECONDS = (0.1, 0.5, 2.0)

_OCCURRENCE = ("nth", "chance_percent", "every")
# How a fault chooses its calls; the empty one stands for ``nth``, whose number is drawn.
_OCCURRENCES: Sequence[dict[str, Any]] = (
    {},
    *({"chance_percent": each} for each in (10.0, 50.0, 100.0)),
    {"every": True},
)
# Fields whose values are not drawn one by one. Callees, and programs that start a role again, are not known here.
_NOT_DRAWN = {*_OCCURRENCE, "lives", "to"}
# The most calls of a range besides the first.
_MORE = 2
# The number of draws for the kind with the most fields: besides those, the kind itself, all callers, and which calls.
_DRAWS = 5 + max(len(set(kind.fields) - _NOT_DRAWN) for kind in KINDS)


def faults(
    sites: Sites,
    roles: Iterable[str],
    *,
    kinds: Iterable[str] | None = None,
    places: Iterable[str] | None = None,
    seconds: Iterable[float] = SECONDS,
    steps: int = 0,
    calls: int = 3,
    latency: bool = False,
) -> st.SearchStrategy[Fault]:
    """Draw faults that can fire in a program with these sites and roles.

    Args:
        sites: for each site how often each role calls it in a healthy run, so that ``nth`` never exceeds that; or only
            the sites, each of which every role may call ``calls`` times.
        roles: the names of all roles; callers that are not among them are ignored.
        kinds: only these kinds; None: all that are possible, except `Corrupt`, which needs calls with tensors.
        places: ``call``, ``message``, ``process``, ``network``; None: all.
        seconds: every duration is one of these.
        steps: how many steps every role logs, for moments such as ``step:2@ps``; 0: no such moments.
        latency: also draw `Slow` with ``latency_ms``, for which the kernel needs netem (`network.missing_netem`).

    Raises:
        PlanError: no fault can have one of these sites, roles or durations.
        ValueError: a kind or place is unknown, or impossible here (such as an `Order` if no site has two callers).
    """
    program = program_of(sites, roles, seconds, steps, calls, latency)
    return _fault(_kinds(program, kinds, places), program)


def plans(
    sites: Sites,
    roles: Iterable[str],
    *,
    kinds: Iterable[str] | None = None,
    places: Iterable[str] | None = None,
    seconds: Iterable[float] = SECONDS,
    steps: int = 0,
    calls: int = 3,
    latency: bool = False,
    min_faults: int = 0,
    max_faults: int = 3,
) -> st.SearchStrategy[Plan]:
    """Draw plans of at most ``max_faults`` different `faults`; the seed is drawn if a fault has a chance.

    ``min_faults`` counts draws: two equal faults, two of the same message type, or two `Slow` of a role become one
    fault. `faults` explains the other arguments and the errors. One fault can keep another from firing: a crash
    prevents all later ones.
    """
    if not 0 <= min_faults <= max_faults:
        raise ValueError(f"wanted 0 <= min_faults <= max_faults, got {min_faults} and {max_faults}")
    one = faults(sites, roles, kinds=kinds, places=places, seconds=seconds, steps=steps, calls=calls, latency=latency)
    return _plan(one, min_faults, max_faults)


@st.composite
def _plan(draw: st.DrawFn, one: st.SearchStrategy[Fault], least: int, most: int) -> Plan:
    """Draw ``most`` faults and keep some, because Hypothesis shrinks numbers well, but not a list cut in the middle."""
    drawn = [(draw(st.booleans()), draw(one)) for _ in range(most)]
    distinct: dict[Any, Fault] = {}
    times = None
    for number, (kept, fault) in enumerate(drawn):
        if not kept and number < most - least:
            continue
        if fault.times is not None:  # the faulty agent has one number for all messages
            times = times or fault.times
            fault = replace(fault, times=times)
        own: object = (fault.kind, fault.role) if fault.traits.one_for_each_role else fault
        distinct.setdefault((fault.kind, fault.message) if fault.message else own, fault)
    seed = draw(st.integers(0, 2**63 - 1))
    chance = any(fault.chance_percent is not None for fault in distinct.values())
    return Plan(tuple(distinct.values()), seed if chance else 0)


def _kinds(program: Program, kinds: Iterable[str] | None, places: Iterable[str] | None) -> list[Kind]:
    """Return the kinds that are wanted and possible, the gentlest first."""
    for what, given in (("kinds", kinds), ("places", places)):
        if isinstance(given, str):
            raise ValueError(f"{what!r} must be several words, got the text {given!r}")
    asked, put = (None if each is None else tuple(each) for each in (kinds, places))
    for each, known, what in ((asked, NAMES, "kind"), (put, PLACES, "place")):
        for name in each or ():
            if name not in known:
                raise ValueError(f"unknown {what} {name!r}, wanted some of {', '.join(known)}")
    wanted = [
        kind
        for kind in _GENTLEST_FIRST
        if (not kind.asked if asked is None else kind.name in asked) and (put is None or kind.place in put)
    ]
    found = [kind for kind in wanted if kind.is_possible(program)]
    for name in asked or ():
        if name not in {kind.name for kind in found}:
            raise ValueError(f"no {name} is possible with these sites, roles and places")
    if not found:
        raise ValueError("no fault is possible with these sites, roles and places")
    return found


@st.composite
def _fault(draw: st.DrawFn, kinds: Sequence[Kind], program: Program) -> Fault:
    """Draw one fault, by the same number of draws for every kind."""
    # Hypothesis takes the example with fewer draws for the simpler one, whatever the draws mean. If kinds took
    # different numbers of draws, a failing plan would shrink to the kind with the fewest fields (a crash of a process),
    # not to the gentlest. So every draw is one integer, in which a smaller number means a gentler value, and the loop
    # below fills up to `_DRAWS`. For the same reason a sequence, such as the roles of an `Order`, is drawn as a number.
    left = _DRAWS

    def number(most: int) -> int:
        nonlocal left
        left -= 1
        return draw(st.integers(0, most))

    def one_of(values: Sequence[Any]) -> Any:
        return values[number(len(values) - 1)]

    kind = one_of(kinds)
    values: dict[str, Any] = {}
    for name in kind.fields:
        if name == "roles":
            values[name] = _arranged(list(program.calls[values["site"]]), number)
        elif name not in _NOT_DRAWN:
            values[name] = one_of(kind.choices(name, program, values))
        if name == "role" and kind.place == "call" and number(1):
            values[name] = None  # all callers: a larger fault than any single caller, so the larger number
    if kind.place == "call":
        occurrence = one_of([each for each in _OCCURRENCES if each.keys() <= set(kind.fields)])
        values |= occurrence or {"nth": _numbers(last_call(program, values), number)}
    while left > 0:
        number(0)
    return Fault(kind=kind.name, **values)


def _numbers(last: int, number: Callable[[int], int]) -> int | str:
    """Choose one call or several that follow each other, by two drawn numbers: the first, and how many more."""
    first = 1 + number(last - 1)
    more = number(min(_MORE, last - first))
    return f"{first}-{first + more}" if more else first


def _arranged(callers: list[str], number: Callable[[int], int]) -> tuple[str, ...]:
    """Arrange two or more callers, by two drawn numbers: how many, and which permutation, the given order first."""
    size = 2 + number(len(callers) - 2)
    order = number(perm(len(callers), size) - 1)
    chosen = []
    for rest in range(size - 1, -1, -1):
        place, order = divmod(order, perm(len(callers) - 1, rest))
        chosen.append(callers.pop(place))
    return tuple(chosen)
