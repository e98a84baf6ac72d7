"""Compute how soon all roles have to end after a fault: twice the program's own timeout, and some seconds."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

from faults.ledger.ledger import Event, Timeline
from faults.ledger.record import Run
from faults.plan.plan import Plan
from faults.verdict import proof
from faults.verdict.failures import COMMAND
from faults.verdict.script_outcomes import Life, lives, peers

# Besides the timeout, what roles may take to end once one is lost (seconds): others may only then begin to wait in
# their turn.
MARGIN = 10.0


# So ends who has not failed by itself.
_BY_PROGRAM = ("Ended", "Stuck", "Running")


def bound_of_timeout(timeout: float) -> float:
    """Seconds within which all roles end after a fault."""
    return 2 * timeout + MARGIN


def timeout_of(timeline: Timeline, bitten: float | None = None) -> float:
    """The longest that a script lets RPC wait: as it told `init_rpc` or `shutdown`, or in a call that a fault has hit,
    or that was open when the first one bit (``bitten``: when), or has failed since.

    A call without a limit (0) has none to take; before RPC is up there is none at all.
    """
    calls = _waiting(timeline, bitten) if bitten is not None else []
    return max([*_timeouts(timeline.of("up", "invoke", "shutdown")), *map(_timeout, calls)], default=0.0)


def _timeouts(events: list[Event]) -> Iterator[float]:
    for event in events:
        if event.event != "invoke" or event.details.get("faults"):
            yield _timeout(event)


def _timeout(event: Event) -> float:
    return float(event.details.get("rpc_timeout", event.details.get("timeout", 0.0)))


def _waiting(timeline: Timeline, bitten: float) -> list[Event]:
    """The calls, as they began, that were open at this time, or have not succeeded since."""
    found: list[Event] = []
    open_: dict[tuple[object, ...], Event] = {}
    for event in timeline.of("invoke", "ok", "fail", "info"):
        call = event.role, event.process, event.call
        begun = open_.pop(call, None)
        if event.event == "invoke":
            open_[call] = event
            found += [begun] if begun is not None else []  # it has no end: RPC has started anew
        elif begun is not None and event.time >= bitten and (event.event != "ok" or begun.time <= bitten):
            found.append(begun)
    return [*found, *open_.values()]


def first_bite(plan: Plan, timeline: Timeline) -> float | None:
    """When the first fault bit, as far as the ledgers tell."""
    return min((event.time for event in _bites(Run("", plan, timeline))), default=None)


def _bites(run: Run) -> list[Event]:
    return [*proof.firings(run), *(event for event in proof.bites(run).values() if event is not None)]


def slowest(run: Run) -> tuple[str, float] | None:
    """Who was the last to end, and how long after the first fault (seconds); None: nothing is known to have bitten.

    Of a script, which may recover: whoever returned takes as long as it takes. A life that failed is counted from the
    first fault in its own world, if there was one. The command is counted from the end of the last of these, or of
    the last role that came to its own end, but not from that of a role which the program has ended; if it returned, as
    one that did, it is not counted either.
    """
    bites = _bites(run)
    first = min((event.time for event in bites), default=None)
    if first is None:
        return None
    if not run.lives:
        return max(((role, end.time - run.start - first) for role, end in run.ends.items()), key=itemgetter(1))
    return max(_held(run, bites, first), key=itemgetter(1), default=("nobody", 0.0))


def _held(run: Run, bites: list[Event], first: float) -> Iterator[tuple[str, float]]:
    every, since, recovered = lives(run.timeline), first, False
    for role, ends in run.lives.items():
        for life, end in zip((each for each in every if each.role == role), ends, strict=False):
            ended = end.time - run.start
            if not end.returned:
                bitten = _bitten(life, every, bites, first)
                since = max(since, bitten if end.kind in _BY_PROGRAM else ended)
                yield role, ended - bitten
            elif life.ended_itself and ended > first:
                since, recovered = max(since, ended), True
    command = run.ends.get(COMMAND)
    if command is not None and not (command.returned and recovered):
        yield COMMAND, command.time - run.start - since


def _bitten(life: Life, every: list[Life], bites: list[Event], first: float) -> float:
    """When the first fault bit in this life's world, in its time; else when the first one bit at all."""
    world = [life, *peers(life, every)]
    met = [bite.time for bite in bites if any(each.has(bite) for each in world)]
    return min((time for time in met if time >= life.events[0].time), default=first)


def lasting(plan: Plan) -> float:
    """What the faults themselves last (seconds)."""
    return sum(fault.seconds or 0.0 for fault in plan.faults)


def limit(timeout: float) -> str:
    """What the bound is made of, in words."""
    return f"twice the program's own timeout of {timeout:g} s, and {MARGIN:g} s"
