"""List the moments that came in a run, at which a plan can hurt a process or a network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from faults.ledger.ledger import Event, Timeline
from faults.plan.kinds import Called
from faults.plan.places import INTERNAL, OF_STEPS, Moment


def census(timeline: Timeline, *, internal: bool = False) -> dict[str, Called]:
    """Count calls by site, in the order of the first calls, and the gradients that were sent (`BACKWARD`).

    ``internal``: include the calls that torch makes itself.
    """
    callers: dict[str, dict[str, int]] = {}
    to: dict[str, dict[str, dict[str, int]]] = {}
    in_life: Counter[tuple[object, ...]] = Counter()
    remote = {str(event.details["site"]) for event in timeline.of("invoke") if event.details.get("via") == "remote"}
    for event in timeline.of("invoke", "gradient"):
        site = str(event.details["site"])
        if internal or not site.startswith(INTERNAL):
            each = callers.setdefault(site, {})
            each[event.role] = max(each.get(event.role, 0), int(event.details["nth"]))
            callees = to.setdefault(site, {})
            in_life[site, event.role] += event.details["nth"] == 1
            if "to" in event.details:
                of_callee = callees.setdefault(str(event.details["to"]), {})
                in_life[life := (site, event.role, event.details["to"], in_life[site, event.role])] += 1
                of_callee[event.role] = max(of_callee.get(event.role, 0), in_life[life])
    return {
        site: Called(dict(sorted(each.items())), tuple(sorted(to[site])), site in remote, to[site])
        for site, each in callers.items()
    }


@dataclass(frozen=True)
class Moments:
    """One moment, or several that differ in their number only: from ``first`` to ``last``."""

    first: Moment
    last: Moment

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}, ... {self.last}"


def moments_seen(timeline: Timeline) -> list[Moments]:
    """Return what each role announced: its start, its steps, its checkpoints, its calls of each site,
    and its shutdown.

    Calls that torch makes itself are left out, as in a sweep.
    """
    sites = census(timeline)
    return [each for role in roles_of(timeline) for each in _of(role, timeline, sites)]


def roles_of(timeline: Timeline) -> list[str]:
    """Return the roles with a ledger; other processes of a script have names that begin with ``+``."""
    return [role for role in timeline.roles if not role.startswith("+")]


def starts_of(timeline: Timeline, boot: str | None = None) -> dict[int, Event]:
    """Return the last start of each process that has played a role, by its id. ``boot``: on this machine only."""
    starts = (each for each in timeline.of("start") if not each.role.startswith("+"))
    return {int(each.details.get("pid", 0)): each for each in starts if boot in (None, each.details.get("boot"))}


def steps_of(role: str, timeline: Timeline, what: str = "step") -> list[int]:
    """Return the numbers of the steps that a role logged, in order and each once. ``what``: another of `OF_STEPS`."""
    return sorted({int(event.details["number"]) for event in timeline.by(role) if event.event == what})


def _of(role: str, timeline: Timeline, sites: Mapping[str, Called]) -> Iterator[Moments]:
    seen = {event.event for event in timeline.of("up", "shutdown") if event.role == role}
    if "up" in seen:
        yield Moments(Moment("up", role), Moment("up", role))
    last = max((int(event.details["number"]) for event in timeline.of("written")), default=0)
    for what in OF_STEPS:
        steps = [number for number in steps_of(role, timeline, what) if number > 0]
        if what == "valid":  # who saves last is told of the last one, and that may be another role in the next run
            steps = [number for number in steps if number < last]
        if steps:
            yield Moments(Moment(what, role, steps[0]), Moment(what, role, steps[-1]))
    for site, calls in sites.items():
        if count := calls.callers.get(role, 0):
            yield Moments(Moment("call", role, 1, site), Moment("call", role, count, site))
    if "shutdown" in seen:
        yield Moments(Moment("shutdown", role), Moment("shutdown", role))
