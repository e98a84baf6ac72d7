"""List the sites that a run has called: who called them, how often, and where they executed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from faults.ledger.ledger import Timeline
from faults.plan.site import INTERNAL


@dataclass(frozen=True)
class Calls:
    """The calls of one site. ``callers``: role to number of calls, of several lives the most in one, because each
    counts anew; ``callees``: the roles that executed them; ``remote``: whether `remote` made one of them."""

    callers: Mapping[str, int]
    callees: tuple[str, ...]
    remote: bool = False


def census(timeline: Timeline, *, internal: bool = False) -> dict[str, Calls]:
    """Count calls by site, in the order of the first calls, and the gradients that were sent (`BACKWARD`).

    ``internal``: include the calls that torch makes itself.
    """
    callers: dict[str, dict[str, int]] = {}
    callees: dict[str, set[str]] = {}
    remote = {str(event.details["site"]) for event in timeline.of("invoke") if event.details.get("via") == "remote"}
    for event in timeline.of("invoke", "gradient"):
        site = str(event.details["site"])
        if internal or not site.startswith(INTERNAL):
            each = callers.setdefault(site, {})
            each[event.role] = max(each.get(event.role, 0), int(event.details["nth"]))
            callees.setdefault(site, set()).update([str(event.details["to"])] if "to" in event.details else [])
    return {
        site: Calls(dict(sorted(each.items())), tuple(sorted(callees[site])), site in remote)
        for site, each in callers.items()
    }
