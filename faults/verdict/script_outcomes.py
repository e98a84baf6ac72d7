"""Tell from the ledgers how each role of a script ended, because only the script itself waits for its processes.

A role's *life* lasts from one start of its RPC to the next one in the same process. Several processes may play one
role, one after the other or at the same time; each has its own lives. A life has to end in order: with a shutdown of
RPC if the others of its world shut down together. If none did, as in programs that use ``graceful=False`` or never shut
down, any end is enough, with one exception: if the program ended the process during a call that a fault had hit, the
call may have hung forever.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from faults.ledger.ledger import Event, Timeline
from faults.ledger.record import End
from faults.plan.crash_ways import signal_of
from faults.tracebacks.error_chain import Piece, from_json
from faults.verdict.planned_crashes import came_first, planned, ways_of_crashes
from reference.outcome import Exited

# Kinds of ends, the worst first. A role with several lives is judged by its worst one.
_KINDS = ("Killed", "Overdue", "Vanished", "Raised", "Exited", "Ended", "Stuck", "Running", "Returned")


@dataclass(frozen=True)
class Life:
    """The events of one role and process from one start to the next. ``last``: the process did not start RPC again,
    under any name."""

    role: str
    events: tuple[Event, ...]
    last: bool

    @property
    def pid(self) -> int:
        return _pid(self.events[0])

    @property
    def ended_itself(self) -> bool:
        """Whether its process ended by itself: no other process ended it."""
        return not self.last or self.of("exit") is not None

    def of(self, kind: str) -> Event | None:
        """Return the last event of this kind."""
        return next((event for event in reversed(self.events) if event.event == kind), None)

    @property
    def is_stuck(self) -> bool:
        """Whether a call that a fault had hit was open at its end, before RPC was shut down."""
        if self.of("left") is not None:
            return False
        ended = {event.call for event in self.events if event.event in ("ok", "fail", "info")}
        begun = [event for event in self.events if event.event == "invoke" and event.details.get("faults")]
        return any(event.call not in ended for event in begun)

    def has(self, event: Event) -> bool:
        """Whether the event can belong to this life."""
        begun, ended = self.events[0].time, self.events[-1].time
        return event.may_be_of(self.role, self.pid) and begun <= event.time <= ended

    def overlaps(self, other: Life) -> bool:
        """Whether both can have been in one world: at the same time, each in a world that names the other's role."""
        return (
            self.events[0].time <= other.events[-1].time
            and other.events[0].time <= self.events[-1].time
            and self.role != other.role
            and self._knows(other)
            and other._knows(self)
        )

    def _knows(self, other: Life) -> bool:
        up = self.of("up")
        names = None if up is None else up.details.get("workers")
        return names is None or other.role in names


def lives(timeline: Timeline) -> list[Life]:
    """Return the lives of all roles. A process that plays no role (``+command``) has none."""
    latest = {_pid(event): event for event in timeline.of("start") if not event.role.startswith("+")}
    played = (role for role in timeline.roles if not role.startswith("+"))
    every = [(role, events) for role in played for events in _of_role(timeline, role)]
    return [Life(role, tuple(events), latest[_pid(events[0])] is events[0]) for role, events in every]


def _of_role(timeline: Timeline, role: str) -> list[list[Event]]:
    """Return the events of each life of a role.

    An event without a process belongs to the latest start. An event of a process that has not started RPC, such as a
    forked child, belongs to no life.
    """
    found: list[list[Event]] = []
    current: dict[int, list[Event]] = {}
    latest = 0
    for event in (each for each in timeline.events if each.role == role):
        if event.event == "start":
            latest = _pid(event)
            current[latest] = []
            found.append(current[latest])
        process = event.process or latest
        if event.event == "stayed" and process in current:  # `os.execv` failed, so the process did not end
            current[process][:] = [each for each in current[process] if each.event != "exit"]
        if process in current:
            current[process].append(event)
    return found


def _pid(start: Event) -> int:
    return int(start.details.get("pid", 0))


def peers(life: Life, every: list[Life]) -> list[Life]:
    """Return the lives that may be of its world. If a role has several, only those that met at the same place count."""
    met = [other for other in every if life.overlaps(other)]
    here = {other.role for other in met if _same_place(life, other)}
    return [other for other in met if other.role not in here or _same_place(life, other)]


def _same_place(life: Life, other: Life) -> bool:
    own, theirs = (each.events[0].details.get("world") for each in (life, other))
    return own is not None and own == theirs


@dataclass(frozen=True)
class Known:
    """What is known of the processes besides their ledgers.

    ``asked``: the processes that their own program ended, and when (monotonic seconds); ``running``: those that still
    ran after the command's end; ``statuses``: their real exit statuses; ``silent``: those that should have recorded
    their status, but have not.
    """

    asked: Mapping[int, float] = field(default_factory=dict)
    running: Collection[int] = ()
    statuses: Mapping[int, int] = field(default_factory=dict)
    silent: Collection[int] = ()


def fates(timeline: Timeline, known: Known | None = None) -> dict[str, End]:
    """Return each role's end; of several lives the worst."""
    killed = planned(timeline)

    def rank(end: End) -> tuple[int, bool, bool]:
        return _KINDS.index(end.kind), end.process in killed, not (end.returned and end.causes)

    return {role: min(reversed(ends), key=rank) for role, ends in of_lives(timeline, known).items()}


def of_lives(timeline: Timeline, known: Known | None = None) -> dict[str, list[End]]:
    """Return the ends of all lives of each role, in the order of `lives`."""
    found: dict[str, list[End]] = {}
    every, known = lives(timeline), known or Known()
    ways = ways_of_crashes(timeline)
    asked = {pid: time for pid, time in known.asked.items() if not came_first(timeline, pid, time)}
    for life in every:
        end = _end(life, every, timeline.zero, replace(known, asked=asked))
        end = _told_of(end, ways.get(life.pid) if life.last else None)
        found.setdefault(life.role, []).append(replace(end, process=life.pid))
    return found


def _told_of(end: End, how: str | None) -> End:
    """Say by which signal of the plan a process was killed, because no process has seen its real status."""
    number = None if how is None else signal_of(how)
    if number is None or end.kind != "Killed":
        return end
    return replace(end, text=f"was killed by a signal, after the plan's {number.name}")


def _end(life: Life, every: list[Life], zero: float, known: Known) -> End:
    time = life.events[-1].time + zero
    raised, left = life.of("raised"), life.of("exit")
    if raised is not None:
        bases = tuple(raised.details.get("bases") or ())
        return End("Raised", f"raised {raised.details.get('error')}", time, bases, _causes(raised))
    if life.of("interrupted") is not None:
        return _by_its_program(life, every, time)
    status = _status(life, left, known.statuses)
    if left is not None and status:
        own = status == left.details.get("status")  # otherwise the error belongs to an earlier `sys.exit`, now caught
        return End("Exited", str(Exited(status)), time, (), _causes(left) if own else ())
    if left is None and life.last:
        return _unseen(life, every, time, known)
    if life.last and life.pid in known.asked and life.is_stuck:
        return _by_its_program(life, every, time)
    if left is not None and _is_cut_off(life, left, known):
        return End("Killed", "was killed by a signal while Python ended", time)
    return _with_nought(life, every, time, left)


def _with_nought(life: Life, every: list[Life], time: float, left: Event | None) -> End:
    """Return the end of a life with exit status 0, with the causes of an error that it may not have handled."""
    causes = () if left is None else _causes(left)
    handled = left.details.get("handled", True) if left is not None and left.details.get("status") == 0 else True
    passing = causes[0] if causes else "an error"
    if handled is False:
        return End("Exited", f"exited with status 0 while it met {passing}", time, (), causes)
    if _misses(life, every):
        return End("Vanished", "ended without shutting RPC down", time, (), causes)
    if handled is None:
        return End("Returned", f"exited with status 0 while it met, or handled {passing}", time, (), causes)
    return _returned(time)


def _status(life: Life, left: Event | None, statuses: Mapping[int, int]) -> int:
    """Return the real exit status of a process, or if it is unknown, the one that its ledger has. Only the last life
    has the process's status."""
    said = 0 if left is None else left.details.get("status") or 0
    return statuses.get(life.pid, said) if life.last else said


def _is_cut_off(life: Life, left: Event, known: Known) -> bool:
    """Whether a signal ended the process after its ledger said that Python ends.

    Another `atexit` handler, a destructor or a library may crash then. `os._exit` does not count: it writes no status
    either. Nor does a process with RPC still up: torch's threads may abort it although its program is right.
    """
    over = life.of("left") is not None or life.of("up") is None
    ended = life.pid not in known.running and life.pid not in known.asked
    return life.last and over and life.pid in known.silent and ended and not left.details.get("final")


def _unseen(life: Life, every: list[Life], time: float, known: Known) -> End:
    """Return the end of a life whose ledger has no ``exit``."""
    if life.pid in known.running:
        return End("Running", "still ran when the command had ended", time)
    if life.pid not in known.asked:
        return End("Killed", "was killed by a signal", time)
    return _by_its_program(life, every, max(time, known.asked[life.pid]))


def _by_its_program(life: Life, every: list[Life], time: float) -> End:
    if life.is_stuck:
        return End("Stuck", "was ended by its own program during a call that a fault had hit", time)
    over = life.of("left") is not None or (life.of("shutdown") is None and not _misses(life, every))
    return _returned(time) if over else End("Ended", "was ended by its own program", time)


def _misses(life: Life, every: list[Life]) -> bool:
    """Whether it started RPC and did not shut it down, although another role of its world shut down for all."""
    if life.of("up") is None or life.of("shutdown") is not None:
        return False
    others = [other.of("shutdown") for other in peers(life, every)]
    return any(event is not None and event.details.get("graceful", True) for event in others)


def _causes(event: Event) -> tuple[Piece, ...]:
    return tuple(from_json(event.details.get("causes")))


def _returned(time: float) -> End:
    return End("Returned", "returned", time)
