"""Tell how each call of a run has ended."""

from __future__ import annotations

from faults.ledger.ledger import Timeline
from faults.run.cells import Call


def call_ends(timeline: Timeline) -> dict[Call, str]:
    """Return each call, in the order in which they were made, and its end: 'ok', 'fail' or 'info', '' without one.

    A gradient has no end that Python sees, so it is 'ok'.
    """
    found: dict[Call, str] = {}
    for event in timeline.of("invoke", "gradient", "ok", "fail", "info"):
        call = (event.role, str(event.details["site"]), int(event.details["nth"]))
        found[call] = {"invoke": "", "gradient": "ok"}.get(event.event, event.event)
    return found
