"""What faults can hit in a program, and the values that each field of such a fault can have. Needs no hypothesis."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from faults.plan.fields import LINE, MESSAGES, check_value, sides_of, words_of
from faults.plan.places import Moment
from faults.plan.plan import PlanError

Sites = Mapping[str, Mapping[str, int]] | Collection[str]

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


@dataclass(frozen=True)
class Program:
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


def program_of(
    sites: Sites, roles: Iterable[str], seconds: Iterable[float], steps: int, calls: int, latency: bool
) -> Program:
    """Check what a caller says of its program. Raises PlanError: no fault can have one of these values."""
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
    return Program(
        {site: callers for site, callers in known.items() if callers}, names, steps, tuple(durations), latency
    )


def choices(name: str, kind: str, place: str, program: Program, drawn: Mapping[str, Any]) -> Sequence[Any]:
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


def _line(name: str, program: Program, drawn: Mapping[str, Any]) -> Sequence[Any]:
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


def last_call(program: Program, drawn: Mapping[str, Any]) -> int:
    """Return the highest number that each of the callers reaches."""
    callers = program.calls[drawn["site"]]
    named = drawn.get("roles") or [drawn["role"]]
    return min(callers[role] for role in (callers if named == [None] else named))
