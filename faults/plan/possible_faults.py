"""The program for which faults are drawn: what they can hit there. Needs no hypothesis."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from faults.plan.fields import check_value
from faults.plan.places import PlanError

Sites = Mapping[str, Mapping[str, int]] | Collection[str]


@dataclass(frozen=True)
class Program:
    """The program for which faults are drawn: how often each role calls each site, the roles, and the durations."""

    calls: Mapping[str, Mapping[str, int]]
    roles: tuple[str, ...]
    steps: int
    seconds: tuple[float, ...]
    latency: bool

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


def last_call(program: Program, drawn: Mapping[str, Any]) -> int:
    """Return the highest number that each of the callers reaches."""
    callers = program.calls[drawn["site"]]
    named = drawn.get("roles") or [drawn["role"]]
    return min(callers[role] for role in (callers if named == [None] else named))
