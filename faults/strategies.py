"""Hypothesis strategies for plans, for properties such as "under any plan the run is right or says why not".

    @given(plans({"shop:Till.pay": {"till1": 6, "till2": 6}}, ["shop", "till1", "till2"], places=["call"]))
    def test_no_plan_makes_the_shop_count_wrong(plan): ...

Every plan that comes out is valid; nothing is filtered. A failing plan shrinks towards fewer faults, gentler kinds
(`GENTLE`), the first site and role, earlier calls (``nth``), smaller sizes, and the seed 0. Needs hypothesis, which
nothing else in `faults` does.

What a plan asks may still never happen: two `Order` faults of one site can contradict each other, and the roles of an
`Order` meet only if their calls go to one callee. Give only such sites, or replace those faults.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import perm
from typing import Any

from faults.plan.fields import KINDS, MESSAGES, SHAPES, allowed_fields, check_value
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
    ("Raise", "call"),
    ("Duplicate", "call"),
    ("Drop", "call"),
    ("Drop", "message"),
    ("Reset", "network"),
    ("Partition", "network"),
    ("Crash", "call"),
    ("Crash", "process"),
)
# Smaller faults first; a faster line is a smaller fault.
SECONDS = (0.1, 0.5, 2.0)
_CHOICES: Mapping[str, Sequence[Any]] = {
    "message": MESSAGES,
    "percent": (1.0, 10.0, 50.0, 100.0),
    "kbit_per_second": (100_000, 10_000, 1_000),
    "times": (1, 2, 3),
    "side": ("request", "reply"),
    "when": ("before", "after"),
    "direction": ("out", "in", "both"),
    "error": (None, "ValueError", "KeyError", "RuntimeError"),
    "text": (None, "a planned error"),
}


_OCCURRENCE = ("nth", "chance_percent", "every")
# Without a word: the nth, which is drawn.
_OCCURRENCES: Sequence[dict[str, Any]] = (
    {},
    *({"chance_percent": each} for each in (10.0, 50.0, 100.0)),
    {"every": True},
)
# What the shape with the most fields takes: Raise at a call.
_DRAWS = 9


@dataclass(frozen=True)
class _Program:
    """What a fault can meet: who calls which site how often, the roles, and how long things take."""

    calls: Mapping[str, Mapping[str, int]]
    roles: tuple[str, ...]
    steps: int
    seconds: tuple[float, ...]

    def allows(self, kind: str, place: str) -> bool:
        """Whether there is anything that such a fault could hit."""
        return bool(self.sites(kind) if place == "call" else self.hurt(place))

    def sites(self, kind: str) -> list[str]:
        """Those with callers enough for this kind."""
        least = 2 if kind == "Order" else 1
        return [site for site, callers in self.calls.items() if len(callers) >= least]

    def hurt(self, place: str) -> list[str | None]:
        return [*self.roles, *([None] if place == "message" else [])]

    @cached_property
    def moments(self) -> list[str]:
        """In the order in which a role meets them; of each site's calls the first and the last."""
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
) -> st.SearchStrategy[Fault]:
    """Faults that can happen in a program with these sites and roles.

    Args:
        sites: per site how often each role calls it in a healthy run, so that ``nth`` never exceeds that; or only
            the sites, each of which any role may call, ``calls`` times.
        roles: everybody's names; callers that are not among them do not count.
        kinds: only these; all that are possible where None is given.
        places: ``call``, ``message``, ``process``, ``network``; all where None is given.
        seconds: every duration is one of these.
        steps: how many steps every role logs, for moments such as ``step:2@ps``; none by itself.

    Raises:
        PlanError: a site, role or duration that no fault can have.
        ValueError: an unknown kind or place, or one that is asked for and impossible here (an `Order` where no site
            has two callers).
    """
    scene = _scene(sites, roles, seconds, steps, calls)
    return _fault(_shapes(scene, kinds, places), scene)


def plans(
    sites: Sites,
    roles: Iterable[str],
    *,
    kinds: Iterable[str] | None = None,
    places: Iterable[str] | None = None,
    seconds: Iterable[float] = SECONDS,
    steps: int = 0,
    calls: int = 3,
    min_faults: int = 0,
    max_faults: int = 3,
) -> st.SearchStrategy[Plan]:
    """Plans of `faults`, at most ``max_faults`` and no two the same; the seed is drawn where a fault has a chance.

    ``min_faults`` counts draws: two that are the same, or hit the same message type, become one fault. For the
    arguments and what is raised see `faults`. One fault can keep another from firing (a crash, what comes after it).
    """
    if not 0 <= min_faults <= max_faults:
        raise ValueError(f"wanted 0 <= min_faults <= max_faults, got {min_faults} and {max_faults}")
    one = faults(sites, roles, kinds=kinds, places=places, seconds=seconds, steps=steps, calls=calls)
    return _plan(one, min_faults, max_faults)


@st.composite
def _plan(draw: st.DrawFn, one: st.SearchStrategy[Fault], least: int, most: int) -> Plan:
    """Draws ``most`` faults and keeps some: a number made smaller shrinks well, a list cut in the middle does not."""
    drawn = [(draw(st.booleans()), draw(one)) for _ in range(most)]
    distinct: dict[Any, Fault] = {}
    times = None
    for number, (kept, fault) in enumerate(drawn):
        if not kept and number < most - least:
            continue
        if fault.times is not None:  # the agent knows one number for all
            times = times or fault.times
            fault = replace(fault, times=times)
        distinct.setdefault((fault.kind, fault.message) if fault.message else fault, fault)
    seed = draw(st.integers(0, 2**63 - 1))
    chance = any(fault.chance_percent is not None for fault in distinct.values())
    return Plan(tuple(distinct.values()), seed if chance else 0)


def _scene(sites: Sites, roles: Iterable[str], seconds: Iterable[float], steps: int, calls: int) -> _Program:
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
    return _Program({site: callers for site, callers in known.items() if callers}, names, steps, tuple(durations))


def _shapes(scene: _Program, kinds: Iterable[str] | None, places: Iterable[str] | None) -> list[tuple[str, str]]:
    """What is asked for and possible, the gentlest first."""
    asked, put = (None if each is None else tuple(each) for each in (kinds, places))
    for each, known, what in ((asked, KINDS, "kind"), (put, PLACES, "place")):
        for name in each or ():
            if name not in known:
                raise ValueError(f"unknown {what} {name!r}, wanted some of {', '.join(known)}")
    wanted = [
        (kind, place) for kind, place in GENTLE if (asked is None or kind in asked) and (put is None or place in put)
    ]
    found = [shape for shape in wanted if scene.allows(*shape)]
    for kind in asked or ():
        if kind not in {each for each, _ in found}:
            raise ValueError(f"no {kind} is possible with these sites, roles and places")
    if not found:
        raise ValueError("no fault is possible with these sites, roles and places")
    return found


@st.composite
def _fault(draw: st.DrawFn, shapes: Sequence[tuple[str, str]], scene: _Program) -> Fault:
    """Makes equally many draws for every shape: for Hypothesis fewer draws are simpler, whatever they mean."""
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
            values[name] = _arranged(list(scene.calls[values["site"]]), number)
        elif name not in _OCCURRENCE:
            values[name] = one_of(_choices(name, kind, place, scene, values))
        if name == "role" and place == "call" and number(1):
            values[name] = None  # everybody: more than anybody
    if place == "call":
        occurrence = one_of([each for each in _OCCURRENCES if kind != "Order" or "chance_percent" not in each])
        values |= occurrence or {"nth": 1 + number(_last(scene, values) - 1)}
    while left > 0:
        number(0)
    return Fault(kind=kind, **values)


def _choices(name: str, kind: str, place: str, scene: _Program, drawn: Mapping[str, Any]) -> Sequence[Any]:
    """One field's values, the smallest first; None where it is left out."""
    if name in _CHOICES:
        return _CHOICES[name]
    if name == "site":
        return scene.sites(kind)
    if name == "role":
        return list(scene.calls[drawn["site"]]) if place == "call" else scene.hurt(place)
    if name == "peer":
        return [*(role for role in scene.roles if role != drawn["role"]), None]
    # No moment: from the start, so earlier. No end: more.
    before, after = ([None], [None]) if place == "network" else ([], [])
    return [*before, *scene.moments] if name == "at" else [*scene.seconds, *after]


def _last(scene: _Program, drawn: Mapping[str, Any]) -> int:
    """A number that each of the callers reaches."""
    callers = scene.calls[drawn["site"]]
    named = drawn.get("roles") or [drawn["role"]]
    return min(callers[role] for role in (callers if named == [None] else named))


def _arranged(callers: list[str], number: Callable[[int], int]) -> tuple[str, ...]:
    """Two or more of them, by two numbers: how many, and which of their orders, the given one first."""
    size = 2 + number(len(callers) - 2)
    order = number(perm(len(callers), size) - 1)
    chosen = []
    for rest in range(size - 1, -1, -1):
        place, order = divmod(order, perm(len(callers) - 1, rest))
        chosen.append(callers.pop(place))
    return tuple(chosen)
