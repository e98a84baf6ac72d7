"""Hypothesis strategies for plans, for properties such as "under any plan the run is right or says why not".

    @given(plans({"shop:Till.pay": {"till1": 6, "till2": 6}}, ["shop", "till1", "till2"], places=["call"]))
    def test_no_plan_makes_the_shop_count_wrong(plan): ...

Every drawn plan is valid; nothing is filtered. A failing plan shrinks towards fewer faults, gentler kinds (`GENTLE`),
the first site and role, earlier calls (``nth``), smaller sizes, and the seed 0. Only this module of `faults` needs
hypothesis.

A drawn fault may still never fire: two `Order` faults of one site can contradict each other, and the roles of an
`Order` meet only if their calls go to one callee. Give only such sites, or replace those faults.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import perm
from typing import Any

from faults.plan.engine_sites import sides_of
from faults.plan.fields import KINDS, LINE, MESSAGES, SHAPES, allowed_fields, check_value, words_of
from faults.plan.moment import Moment
from faults.plan.plan import Fault, Plan, PlanError

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise ImportError("faults.strategies needs hypothesis: pip install hypothesis") from error

__all__ = ["GENTLE", "PLACES", "faults", "plans"]

Sites = Mapping[str, Mapping[str, int]] | Collection[str]

PLACES = tuple(dict.fromkeys(place for _, place in SHAPES))
# (kind, place), the gentlest first.
GENTLE = (
    ("Delay", "call"),
    ("Delay", "message"),
    ("Order", "call"),
    ("Slow", "network"),
    ("Lossy", "network"),
    ("Pause", "process"),
    ("Hold", "process"),
    ("Raise", "call"),
    ("Duplicate", "call"),
    ("Drop", "call"),
    ("Drop", "message"),
    ("Reset", "network"),
    ("Partition", "network"),
    ("Crash", "call"),
    ("Crash", "process"),
    ("Corrupt", "call"),
)
_ASKED = ("Corrupt",)  # drawn only if they are named: it needs calls with tensors, and few programs check their data
# Smaller faults first. A faster connection is a smaller fault.
SECONDS = (0.1, 0.5, 2.0)
_CHOICES: Mapping[str, Sequence[Any]] = {
    "message": MESSAGES,
    "percent": (1.0, 10.0, 50.0, 100.0),
    "kbit_per_second": (100_000, 10_000, 1_000),
    "latency_ms": (1.0, 10.0, 100.0),
    "reorder_percent": (None, 1.0, 25.0),
    "times": (1, 2, 3),
    "error": (None, "ValueError", "KeyError", "RuntimeError"),
    "text": (None, "a planned error"),
}
# The ways of a crash. A role can exit only at a moment of its own.
_WAYS = (None, "term", "abort", "segv", "exit:0", "exit:1")

_OCCURRENCE = ("nth", "chance_percent", "every")
# How a fault chooses its calls; the empty one stands for ``nth``, whose number is drawn.
_OCCURRENCES: Sequence[dict[str, Any]] = (
    {},
    *({"chance_percent": each} for each in (10.0, 50.0, 100.0)),
    {"every": True},
)
# The number of draws for the shape with the most fields: Raise at a call.
_DRAWS = 9


@dataclass(frozen=True)
class _Program:
    """The program for which faults are drawn: how often each role calls each site, the roles, and the durations."""

    calls: Mapping[str, Mapping[str, int]]
    roles: tuple[str, ...]
    steps: int
    seconds: tuple[float, ...]
    latency: bool

    def allows(self, kind: str, place: str) -> bool:
        """Whether such a fault has anything to hit."""
        return bool(self.sites(kind) if place == "call" else self.targets(place))

    def sites(self, kind: str) -> list[str]:
        """Return the sites with enough callers for this kind."""
        least = 2 if kind == "Order" else 1
        return [site for site, callers in self.calls.items() if len(callers) >= least and sides_of(kind, site)]

    def targets(self, place: str) -> list[str | None]:
        """Return the values of the field ``role``; None stands for all roles."""
        return [*self.roles, *([None] if place == "message" else [])]

    @cached_property
    def moments(self) -> list[str]:
        """Return the moments in the order in which a role reaches them; for each site the first and the last call."""
        calls = [
            f"call:{site}#{number}@{role}"
            for site, callers in self.calls.items()
            for role, count in callers.items()
            for number in dict.fromkeys((1, count))
        ]
        steps = [f"step:{step}@{role}" for step in range(1, self.steps + 1) for role in self.roles]
        return [*(f"up@{role}" for role in self.roles), *calls, *steps, *(f"shutdown@{role}" for role in self.roles)]


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
    program = replace(_program_of(sites, roles, seconds, steps, calls), latency=latency)
    return _fault(_shapes(program, kinds, places), program)


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

    ``min_faults`` counts draws: two equal faults, or two of the same message type, become one fault. `faults` explains
    the other arguments and the errors. One fault can keep another from firing (a crash prevents all later ones).
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
        distinct.setdefault((fault.kind, fault.message) if fault.message else fault, fault)
    seed = draw(st.integers(0, 2**63 - 1))
    chance = any(fault.chance_percent is not None for fault in distinct.values())
    return Plan(tuple(distinct.values()), seed if chance else 0)


def _program_of(sites: Sites, roles: Iterable[str], seconds: Iterable[float], steps: int, calls: int) -> _Program:
    for name, given, wanted in (("roles", roles, "several names"), ("sites", sites, "several sites")):
        if isinstance(given, str):
            raise PlanError(f"{name!r} must be {wanted}, got the text {given!r}")
    names = tuple(dict.fromkeys(check_value("roles", "role", role) for role in roles))
    if not isinstance(sites, Mapping):
        sites = {site: dict.fromkeys(names, calls) for site in sites}
    known = {
        check_value("sites", "site", site): {
            role: check_value("sites", "nth", callers[role]) for role in names if callers.get(role)
        }
        for site, callers in sites.items()
    }
    durations = sorted({check_value("seconds", "seconds", each) for each in seconds})
    if not durations:
        raise PlanError("'seconds' must be one or more durations, got none")
    return _Program(
        {site: callers for site, callers in known.items() if callers}, names, steps, tuple(durations), False
    )


def _shapes(program: _Program, kinds: Iterable[str] | None, places: Iterable[str] | None) -> list[tuple[str, str]]:
    """Return the (kind, place) pairs that are wanted and possible, the gentlest first."""
    asked, put = (None if each is None else tuple(each) for each in (kinds, places))
    for each, known, what in ((asked, KINDS, "kind"), (put, PLACES, "place")):
        for name in each or ():
            if name not in known:
                raise ValueError(f"unknown {what} {name!r}, wanted some of {', '.join(known)}")
    wanted = [
        (kind, place)
        for kind, place in GENTLE
        if (kind not in _ASKED if asked is None else kind in asked) and (put is None or place in put)
    ]
    found = [shape for shape in wanted if program.allows(*shape)]
    for kind in asked or ():
        if kind not in {each for each, _ in found}:
            raise ValueError(f"no {kind} is possible with these sites, roles and places")
    if not found:
        raise ValueError("no fault is possible with these sites, roles and places")
    return found


@st.composite
def _fault(draw: st.DrawFn, shapes: Sequence[tuple[str, str]], program: _Program) -> Fault:
    """Draw one fault, by the same number of draws for every shape."""
    # Hypothesis takes the example with fewer draws for the simpler one, whatever the draws mean. If shapes took
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

    kind, place = one_of(shapes)
    values: dict[str, Any] = {}
    for name in allowed_fields(kind, place):
        if name == "roles":
            values[name] = _arranged(list(program.calls[values["site"]]), number)
        elif name not in _OCCURRENCE:
            values[name] = one_of(_choices(name, kind, place, program, values))
        if name == "role" and place == "call" and number(1):
            values[name] = None  # all callers: a larger fault than any single caller, so the larger number
    if place == "call":
        occurrence = one_of([each for each in _OCCURRENCES if kind != "Order" or "chance_percent" not in each])
        values |= occurrence or {"nth": 1 + number(_last(program, values) - 1)}
    while left > 0:
        number(0)
    return Fault(kind=kind, **values)


def _choices(name: str, kind: str, place: str, program: _Program, drawn: Mapping[str, Any]) -> Sequence[Any]:
    """Return one field's values, the smallest first; None stands for a field that is left out."""
    if name in ("error", "text") and drawn["side"] == "flight":
        return [None]
    if name == "how":
        return _WAYS if place == "call" or Moment.parse(drawn["at"]).role == drawn["role"] else _WAYS[:-2]
    if name == "side":
        return sides_of(kind, drawn["site"])
    if name in LINE:
        return _line(name, program, drawn)
    if name in _CHOICES:
        return _CHOICES[name]
    if words := words_of(kind, name):
        return words
    if name == "site":
        return program.sites(kind)
    if name == "role":
        return list(program.calls[drawn["site"]]) if place == "call" else program.targets(place)
    if name == "peer":
        return [*(role for role in program.roles if role != drawn["role"]), None]
    # Without a moment a fault begins at the start, so that choice is the first. Without seconds it does not heal, so
    # that choice is the last.
    before, after = ([None], [None]) if place == "network" else ([], [])
    return [*before, *program.moments] if name == "at" else [*program.seconds, *after]


def _line(name: str, program: _Program, drawn: Mapping[str, Any]) -> Sequence[Any]:
    """Return the values of a field of `Slow`: a rate, a latency, or both; the others only with a latency."""
    if name == "kbit_per_second":
        return (*_CHOICES[name], None) if program.latency else _CHOICES[name]
    if name == "latency_ms":
        without = [None] if drawn["kbit_per_second"] is not None else []
        return [*without, *_CHOICES[name]] if program.latency else [None]
    latency = drawn["latency_ms"]
    if latency is None:
        return [None]
    return [None, latency / 10, latency] if name == "jitter_ms" else _CHOICES[name]


def _last(program: _Program, drawn: Mapping[str, Any]) -> int:
    """Return the highest number that each of the callers reaches."""
    callers = program.calls[drawn["site"]]
    named = drawn.get("roles") or [drawn["role"]]
    return min(callers[role] for role in (callers if named == [None] else named))


def _arranged(callers: list[str], number: Callable[[int], int]) -> tuple[str, ...]:
    """Arrange two or more callers, by two drawn numbers: how many, and which permutation, the given order first."""
    size = 2 + number(len(callers) - 2)
    order = number(perm(len(callers), size) - 1)
    chosen = []
    for rest in range(size - 1, -1, -1):
        place, order = divmod(order, perm(len(callers) - 1, rest))
        chosen.append(callers.pop(place))
    return tuple(chosen)
