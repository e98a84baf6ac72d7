"""How each role of a script ended, as the ledgers tell it: nobody waits for its processes but the script itself.

A role's *life* is from one start of its RPC to the next. It has to end in order, with RPC shut down where the others of
its world have done so together. Where nobody did, as in programs that shut down with ``graceful=False`` or not at all,
its end is enough.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from faults.causes import Piece, from_json
from faults.ledger import Event, Timeline
from faults.record import End
from reference.outcome import Exited

# The worst first: what a role that has several lives is called by.
_KINDS = ("Killed", "Overdue", "Vanished", "Raised", "Exited", "Ended", "Running", "Returned")


@dataclass(frozen=True)
class Life:
    """The events of one role from one start to the next. ``last``: whether its process started RPC no more, under
    whatever name."""

    role: str
    events: tuple[Event, ...]
    last: bool

    @property
    def pid(self) -> int:
        return int(self.events[0].details.get("pid", 0))

    def of(self, kind: str) -> Event | None:
        """The last one of this kind."""
        return next((event for event in reversed(self.events) if event.event == kind), None)

    def overlaps(self, other: Life) -> bool:
        """Whether both can have been of one world."""
        return (
            self.events[0].time <= other.events[-1].time
            and other.events[0].time <= self.events[-1].time
            and self.role != other.role
        )


def lives(timeline: Timeline) -> list[Life]:
    """Of all roles. Who plays none (``+command``) has none."""
    found = []
    latest = {event.details.get("pid"): event for event in timeline.of("start") if not event.role.startswith("+")}
    for role in (each for each in timeline.roles if not each.startswith("+")):
        own = [event for event in timeline.events if event.role == role]
        starts = [n for n, event in enumerate(own) if event.event == "start"]
        for begin, end in zip(starts, [*starts[1:], len(own)], strict=True):
            last = latest[own[begin].details.get("pid")] is own[begin]
            found.append(Life(role, tuple(own[begin:end]), last))
    return found


def fates(
    timeline: Timeline,
    *,
    asked: Collection[int] = (),
    running: Collection[int] = (),
    statuses: Mapping[int, int] | None = None,
) -> dict[str, End]:
    """Each role's end; of several lives the worst.

    ``asked``: the processes that their own program has ended; ``running``: those that were there when it was over;
    ``statuses``: with which processes have really ended, where that is known.
    """
    found: dict[str, End] = {}
    every = lives(timeline)
    for life in every:
        end = _end(life, every, timeline.zero, asked, running, statuses or {})
        known = found.get(life.role)
        if known is None or _KINDS.index(end.kind) <= _KINDS.index(known.kind):
            found[life.role] = end
    return found


def _end(
    life: Life,
    every: list[Life],
    zero: float,
    asked: Collection[int],
    running: Collection[int],
    statuses: Mapping[int, int],
) -> End:
    time = life.events[-1].time + zero
    raised, left = life.of("raised"), life.of("exit")
    if raised is not None:
        bases = tuple(raised.details.get("bases") or ())
        return End("Raised", f"raised {raised.details.get('error')}", time, bases, _causes(raised))
    status = _status(life, left, statuses)
    if left is not None and status:
        known = status == left.details.get("status")  # else the error is another's, as of a `sys.exit` that was caught
        return End("Exited", str(Exited(status)), time, (), _causes(left) if known else ())
    if left is None and life.last:
        return _unseen(life, every, time, asked, running)
    return End("Vanished", "ended without shutting RPC down", time) if _misses(life, every) else _returned(time)


def _status(life: Life, left: Event | None, statuses: Mapping[int, int]) -> int:
    """What the process has really ended with; where nobody knows, what it said. Of its last life alone."""
    said = 0 if left is None else left.details.get("status") or 0
    return statuses.get(life.pid, said) if life.last else said


def _unseen(life: Life, every: list[Life], time: float, asked: Collection[int], running: Collection[int]) -> End:
    """One that has not said itself that it ends."""
    if life.pid in running:
        return End("Running", "still ran when the command had ended", time)
    if life.pid not in asked:
        return End("Killed", "was killed by a signal", time)
    over = life.of("left") is not None or (life.of("shutdown") is None and not _misses(life, every))
    return _returned(time) if over else End("Ended", "was ended by its own program", time)


def _misses(life: Life, every: list[Life]) -> bool:
    """Whether it has started RPC and not shut it down, where another role of its world did, for all together."""
    if life.of("up") is None or life.of("shutdown") is not None:
        return False
    others = [other.of("shutdown") for other in every if life.overlaps(other)]
    return any(event is not None and event.details.get("graceful", True) for event in others)


def _causes(event: Event) -> tuple[Piece, ...]:
    return tuple(from_json(event.details.get("causes")))


def _returned(time: float) -> End:
    return End("Returned", "returned", time)
