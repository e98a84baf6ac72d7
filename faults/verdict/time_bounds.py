"""Compute how soon all roles have to end after a fault: within twice the program's own timeout, plus `MARGIN`."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

from faults.ledger.ledger import Event, Timeline
from faults.ledger.record import Run
from faults.plan.plan import Fault, Plan
from faults.verdict import proof
from faults.verdict.failures import COMMAND
from faults.verdict.script_outcomes import Life, lives, peers

# Seconds that roles may take to end, besides the timeouts. There are two timeouts, because a role may begin to wait
# only when another one has given up.
MARGIN = 10.0


# How many late packets of a role the others may have to wait for. A role may learn of an end only by such a packet,
# once for each timeout. The start of RPC alone waits for 14 of them, one after another (measured with two roles).
_LATE, _LATE_AT_START = 2, 20

# The longest time that a call waits for its turn (seconds), if half of the program's own timeout is longer.
_TURN = 10.0

# The ends of roles that did not fail by themselves.
_BY_PROGRAM = ("Ended", "Stuck", "Running")


def bound_of_timeout(timeout: float) -> float:
    """Return the seconds within which all roles have to end after a fault."""
    return 2 * timeout + MARGIN


def timeout_of(timeline: Timeline, first_seen: float | None = None) -> float:
    """Return the longest timeout of a script that may have delayed its end.

    These are the timeouts of `init_rpc` and `shutdown`, of calls that a fault hit, and of calls that were open at the
    first effect of a fault (at ``first_seen``), or failed after it. A call without a limit (0) does not count. If there
    is no timeout, as before RPC is up, the result is 0.
    """
    calls = _waiting(timeline, first_seen) if first_seen is not None else []
    return max([*_timeouts(timeline.of("up", "invoke", "shutdown")), *map(_timeout, calls)], default=0.0)


def turn_of(timeline: Timeline) -> float:
    """Return the seconds that an `Order` lets a call of this program wait for its turn."""
    return min(timeout_of(timeline) / 2 or _TURN, _TURN)


def _timeouts(events: list[Event]) -> Iterator[float]:
    for event in events:
        if event.event != "invoke" or event.details.get("faults"):
            yield _timeout(event)


def _timeout(event: Event) -> float:
    return float(event.details.get("rpc_timeout", event.details.get("timeout", 0.0)))


def _waiting(timeline: Timeline, first_seen: float) -> list[Event]:
    """Return the beginnings of calls that were open at this time, or began later and did not succeed."""
    found: list[Event] = []
    open_: dict[tuple[object, ...], Event] = {}
    for event in timeline.of("invoke", "ok", "fail", "info"):
        call = event.role, event.process, event.call
        begun = open_.pop(call, None)
        if event.event == "invoke":
            open_[call] = event
            found += [begun] if begun is not None else []  # the earlier call has no end: RPC was started again
        elif begun is not None and event.time >= first_seen and (event.event != "ok" or begun.time <= first_seen):
            found.append(begun)
    return [*found, *open_.values()]


def first_effect(plan: Plan, timeline: Timeline) -> float | None:
    """Return the time of the first effect of a fault, as far as the ledgers tell."""
    return min((event.time for event in _effects(Run("", plan, timeline))), default=None)


def _effects(run: Run) -> list[Event]:
    return [*proof.firings(run), *(event for event in proof.first_effects(run).values() if event is not None)]


def slowest(run: Run) -> tuple[str, float] | None:
    """Return the role that ended last, and its seconds after the first fault; None: no fault is known to have fired.

    A script may recover, so a role that returned has no limit. A life that failed is counted from the first fault in
    its own world, if there was one. The command is counted from the last of these ends, or from the last role that
    ended by itself, but not from a role that the program ended. A command that returned after a role recovered has no
    limit either.
    """
    effects = _effects(run)
    first = min((event.time for event in effects), default=None)
    if first is None:
        return None
    if not run.lives:
        return max(((role, end.time - run.start - first) for role, end in run.ends.items()), key=itemgetter(1))
    return max(_held(run, effects, first), key=itemgetter(1), default=("nobody", 0.0))


def _held(run: Run, effects: list[Event], first: float) -> Iterator[tuple[str, float]]:
    every, since, recovered = lives(run.timeline), first, False
    for role, ends in run.lives.items():
        for life, end in zip((each for each in every if each.role == role), ends, strict=False):
            ended = end.time - run.start
            if not end.returned:
                first_seen = _first_effect_in_world(life, every, effects, first)
                since = max(since, first_seen if end.kind in _BY_PROGRAM else ended)
                yield role, ended - first_seen
            elif life.ended_itself and ended > first:
                since, recovered = max(since, ended), True
    command = run.ends.get(COMMAND)
    if command is not None and not (command.returned and recovered):
        yield COMMAND, command.time - run.start - since


def _first_effect_in_world(life: Life, every: list[Life], effects: list[Event], first: float) -> float:
    """Return the time of the first fault in this life's world and time, otherwise of the first fault at all."""
    world = [life, *peers(life, every)]
    met = [effect.time for effect in effects if any(each.has(effect) for each in world)]
    return min((time for time in met if time >= life.events[0].time), default=first)


def lasting(plan: Plan) -> float:
    """Return the seconds that the faults themselves last, and those in which roles wait for packets that are late."""
    return sum((fault.seconds or 0.0) + _late(fault) for fault in plan.faults)


def _late(fault: Fault) -> float:
    latency = ((fault.latency_ms or 0.0) + (fault.jitter_ms or 0.0)) / 1000
    return (_LATE_AT_START if fault.at is None else _LATE) * latency


def limit(timeout: float) -> str:
    """Describe how the bound is computed."""
    return f"twice the program's own timeout of {timeout:g} s, and {MARGIN:g} s"
