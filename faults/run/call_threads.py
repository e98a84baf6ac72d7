"""Find the roles of a run whose threads may all be kept by calls that wait for their turn."""

from __future__ import annotations

from collections import Counter

from faults.ledger.ledger import Timeline
from faults.plan.fields import ENGINE_SITES
from faults.plan.places import INTERNAL


def with_few_threads(timeline: Timeline) -> dict[str, str]:
    """Return the roles that have fewer threads than calls they may get at once, and why an order would hold them up.

    Each caller may have as many calls open as it had at most, at the same time as all others.
    """
    threads = {event.role: event.details.get("threads") for event in timeline.of("up")}
    most = most_at_once(timeline)
    return {
        role: f"it has fewer threads ({count}) than calls at once ({most[role]})"
        for role, count in threads.items()
        if count is not None and most[role] > max(1, count)
    }


def most_at_once(timeline: Timeline) -> Counter[str]:
    """Return for each role how many calls it may get at once: the sum over callers of the most that one had open."""
    open_calls: Counter[tuple[str, str]] = Counter()
    most: Counter[tuple[str, str]] = Counter()
    for event in timeline.of("invoke", "ok", "fail", "info"):
        site = str(event.details["site"])
        if site.startswith(INTERNAL) or site in ENGINE_SITES:
            continue
        pair = str(event.details.get("to")), event.role
        open_calls[pair] += 1 if event.event == "invoke" else -1
        most[pair] = max(most[pair], open_calls[pair])
    found: Counter[str] = Counter()
    for (role, _), count in most.items():
        found[role] += count
    return found
