"""Compute how soon a program that fails has to end after a fault: within twice its own timeout, plus `MARGIN`."""

from __future__ import annotations

from faults.ledger.ledger import Event, Timeline
from faults.ledger.record import Run
from faults.plan.plan import Plan

# Seconds that roles may take to end, besides the timeouts. There are two timeouts, because a role may begin to wait
# only when another one has given up.
MARGIN = 10.0
# The longest time that a call waits for its turn (seconds), if half of the program's own timeout is longer.
_TURN = 10.0


def bound_of_timeout(timeout: float) -> float:
    """Return the seconds within which all roles have to end after a fault."""
    return 2 * timeout + MARGIN


def timeout_of(timeline: Timeline, first_seen: float | None = None) -> float:
    """Return the longest timeout of a script that may have delayed its end.

    These are the timeouts of `init_rpc` and `shutdown`, of calls that a fault hit, and of calls that were open at the
    first effect of a fault (at ``first_seen``), or failed after it. A call without a limit (0) does not count. If there
    is no timeout, as before RPC is up, the result is 0.
    """
    hit = [event for event in timeline.of("invoke") if event.details.get("faults")]
    waiting = _waiting(timeline, first_seen) if first_seen is not None else []
    return max(map(_timeout, [*timeline.of("up", "shutdown"), *hit, *waiting]), default=0.0)


def turn_of(timeline: Timeline) -> float:
    """Return the seconds that an `Order` lets a call of this program wait for its turn."""
    return min(timeout_of(timeline) / 2 or _TURN, _TURN)


def _timeout(event: Event) -> float:
    return float(event.details.get("rpc_timeout", event.details.get("timeout", 0.0)))


def _waiting(timeline: Timeline, first_seen: float) -> list[Event]:
    """Return the beginnings of calls that were open at this time, or began later and did not succeed."""
    found: list[Event] = []
    open_: dict[tuple[object, ...], Event] = {}
    for event in timeline.of("invoke", "ok", "fail", "info"):
        begun = open_.pop(event.made, None)
        if event.event == "invoke":
            open_[event.made] = event
        elif begun is not None and event.time >= first_seen and (event.event != "ok" or begun.time <= first_seen):
            found.append(begun)
    return [*found, *open_.values()]


def allowed(run: Run, first_seen: float | None) -> tuple[float, str]:
    """Return the seconds that a failure may come after a fault, and how they are computed. ``first_seen``: the time of
    the first effect of a fault."""
    if run.bound is not None:
        return run.bound + lasting(run.plan), "the bound that was given"
    timeout = timeout_of(run.timeline, first_seen) if run.timeout is None else run.timeout
    computed = f"twice the program's own timeout of {timeout:g} s, and {MARGIN:g} s"
    return bound_of_timeout(timeout) + lasting(run.plan), computed


def lasting(plan: Plan) -> float:
    """Return the seconds that the faults themselves last, and those in which roles wait for packets that are late."""
    return sum(fault.traits.lasts(fault) for fault in plan.faults)
