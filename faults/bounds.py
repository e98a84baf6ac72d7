"""How soon all roles have to end after a fault: twice the program's own timeout, and some seconds."""

from __future__ import annotations

from collections.abc import Iterator

from faults.ledger import Timeline
from faults.plan import Plan

# Besides the timeout, what roles may take to end once one is lost (seconds): others may only then begin to wait in
# their turn.
MARGIN = 10.0


def bound_of_timeout(timeout: float) -> float:
    """Seconds within which all roles end after a fault."""
    return 2 * timeout + MARGIN


def timeout_of(timeline: Timeline) -> float:
    """The longest that a script lets RPC wait: as it told `init_rpc` or `shutdown`, or in a call that a fault has hit.

    A call without a limit (0) has none to take; before RPC is up there is none at all.
    """
    return max(_timeouts(timeline), default=0.0)


def _timeouts(timeline: Timeline) -> Iterator[float]:
    for event in timeline.of("up", "invoke", "shutdown"):
        if event.event != "invoke" or event.details.get("faults"):
            yield float(event.details.get("rpc_timeout", event.details.get("timeout", 0.0)))


def lasting(plan: Plan) -> float:
    """What the faults themselves last (seconds)."""
    return sum(fault.seconds or 0.0 for fault in plan.faults)


def limit(timeout: float) -> str:
    """What the bound is made of, in words."""
    return f"twice the program's own timeout of {timeout:g} s, and {MARGIN:g} s"
