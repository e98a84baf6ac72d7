"""Tell who waits for whom where a run hangs, as a graph of roles.

A role waits for the callees of its open calls, and in the common shutdown for all roles that have not come to theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from faults.judge.facts import RUNNING, Facts, Life, short
from faults.ledger.ledger import Event

# How many open calls of a caller to one callee are named.
_CALLS = 3
SHUTDOWN = "common shutdown"


@dataclass(frozen=True)
class Wait:
    """``caller`` waits for ``callee``. ``calls``: those that had no end when the caller was given up, or `SHUTDOWN`;
    ``seconds``: since the first of them."""

    caller: str
    callee: str
    calls: Sequence[str]
    seconds: float


def _joined(waits: Sequence[Wait]) -> str:
    """Tell of one wait, or of several roles that wait for the same one in the common shutdown."""
    first, callers = waits[0], [wait.caller for wait in waits]
    more = f" and {len(first.calls) - _CALLS} more" if len(first.calls) > _CALLS else ""
    who = f"{callers[0]} waits" if len(callers) == 1 else f"{', '.join(callers[:-1])} and {callers[-1]} wait"
    seconds = max(wait.seconds for wait in waits)
    return f"{who} for {first.callee} ({', '.join(first.calls[:_CALLS])}{more}, {seconds:.1f} s)"


def waits_of(facts: Facts) -> list[Wait]:
    """Return the waits of all roles that were overdue, or still ran when the command had ended; none of others."""
    absent = [
        role
        for role, life in facts.last.items()
        if life.of("shutdown") is None or (life.of("left") is None and not _hangs(life))  # it comes no more
    ]
    return [wait for life in facts.last.values() if _hangs(life) for wait in _of_life(facts, life, absent)]


def told_waits(facts: Facts) -> Iterator[str]:
    """Yield a line for each wait, and for each role that hangs without an open call; then the circles."""
    waits = waits_of(facts)
    groups: dict[tuple[str, str], list[Wait]] = {}  # all who wait for one role in the common shutdown are one
    for wait in waits:
        caller = "" if wait.calls == [SHUTDOWN] else wait.caller
        groups.setdefault((caller, wait.callee), []).append(wait)
    for (_, callee), group in groups.items():
        yield f"{_joined(group)}{_fate(facts, callee)}"
    callers = {wait.caller for wait in waits}
    yield from (f"{role} has no open call" for role, life in facts.last.items() if _hangs(life) and role not in callers)
    for circle in circles(waits):
        yield f"nobody moves: {' waits for '.join(circle)}"


def circles(waits: Sequence[Wait]) -> list[list[str]]:
    """Return each circle of roles once, its first role again at its end."""
    after: dict[str, list[str]] = {}
    for wait in waits:
        after.setdefault(wait.caller, []).append(wait.callee)
    found: dict[frozenset[str], list[str]] = {}
    for role in after:
        for circle in _from(role, after):
            found.setdefault(frozenset(circle), circle)
    return list(found.values())


def _from(role: str, after: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Yield the shortest circle through a role, if there is one."""
    paths, seen = [[role]], {role}
    for path in paths:  # breadth first; the list grows
        for callee in after.get(path[-1], ()):
            if callee == role:
                yield [*path, role]
                return
            if callee not in seen:
                seen.add(callee)
                paths.append([*path, callee])


def _hangs(life: Life) -> bool:
    return life.end.kind in ("Overdue", RUNNING)


def _of_life(facts: Facts, life: Life, absent: Sequence[str]) -> Iterator[Wait]:
    """Yield the waits of a life. ``absent``: the roles that come no more to the common shutdown."""
    begun, end = open_calls(life.events), life.end.time - facts.run.zero
    for callee in dict.fromkeys(str(each.details.get("to")) for each in begun):
        calls = [each for each in begun if str(each.details.get("to")) == callee]
        yield Wait(life.role, callee, [call_name(each) for each in calls], max(0.0, end - calls[0].time))
    shutdown = life.of("shutdown")
    if shutdown is not None and shutdown.details.get("graceful") and life.of("left") is None:
        for role in absent:
            yield Wait(life.role, role, [SHUTDOWN], max(0.0, end - shutdown.time))


def open_calls(events: Sequence[Event]) -> list[Event]:
    """Return the program's own calls that have a beginning and no end, by time."""
    begun: dict[tuple[object, ...], Event] = {}
    for event in events:
        if event.event == "invoke" and not event.is_internal:
            begun[event.made] = event
        elif event.event in ("ok", "fail", "info"):
            begun.pop(event.made, None)
    return list(begun.values())


def call_name(event: Event) -> str:
    """Name a call without its module: ``Server.update#3``."""
    return f"{str(event.details.get('site')).rpartition(':')[2]}#{event.details.get('nth')}"


def _fate(facts: Facts, callee: str) -> str:
    life = facts.last.get(callee)
    return "" if life is None or _hangs(life) else f", which {short(life.end.text)}"
