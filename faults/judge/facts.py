"""The facts of a run that the rules are about: how each life of each role ended, and which of them failed.

A role's *life* lasts from one start of its RPC to the next one in the same process; a role that is started again in
another process has another life, too. Of a world of `launch` the launcher knows how each role ended. Of a script only
the program waits for its processes, so the ledgers tell it, and the exit status that C wrote when no Python ran any
more.
"""

from __future__ import annotations

import math
from bisect import bisect, bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

from faults.judge import proof
from faults.judge.bound import allowed
from faults.ledger.error_links import CALLEE, MEMBER, Link, from_json
from faults.ledger.ledger import Event, Timeline
from faults.ledger.moments_seen import roles_of, starts_of
from faults.ledger.record import COMMAND, End, Run
from faults.plan.crash_ways import signal_of, status_of
from faults.plan.kinds import KINDS
from reference.outcome import Exited

# Kinds of ends. Besides the outcomes of `reference.outcome` a script's role may end in a way of which nothing tells
# why, or still run, and the launcher may have ended a world's role because another one was lost.
GONE, RUNNING = "Gone", "Running"
# How far the wall clocks of two machines may be apart (seconds), by which their ledgers are merged.
CLOCKS = 1.0
# torch tells the time of its time-outs in whole milliseconds, so it may end a call so much too early (seconds).
TICK = 0.001
# The ends that are failures. Who is gone convicts nobody: launchers often end servers so.
_FAILURES = ("Raised", "Exited", "Killed", "Overdue")
# The kinds of faults that end a process.
_ENDING = {kind.name for kind in KINDS if kind.ends_process}


@dataclass(frozen=True)
class Life:
    """One life of a role. ``number``: from 1; ``last``: its process did not start RPC again, under any name."""

    role: str
    number: int
    process: int
    events: Sequence[Event]
    last: bool
    end: End

    def of(self, kind: str) -> Event | None:
        """Return the last event of this kind."""
        return _last(self.events, kind)


@dataclass(frozen=True)
class Failure:
    """The end of a role's life, or of the command (`COMMAND`), that was a failure. ``time``, and the one at which its
    process ``began`` to play roles: on the timeline."""

    role: str
    life: int
    end: End
    time: float
    links: Sequence[Link]
    began: float = 0.0

    @property
    def itself(self) -> list[Link]:
        """The error that ended it; of a group its members, too, and of a failed call the error of the callee."""
        own: list[int] = []
        for number, each in enumerate(self.links):
            if number == 0 or (each.of in own and each.way in (MEMBER, CALLEE)):
                own.append(number)
        return [self.links[number] for number in own]

    def __str__(self) -> str:
        return f"{player(self.role)} {short(self.end.text)}"


class Facts:
    """The facts of one run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.allowed = cache(partial(allowed, run))  # once for each time: it goes through all calls

    @cached_property
    def lives(self) -> list[Life]:
        """The lives of all roles, each role's by their beginnings. The command is no role."""
        return list(_of_script(self.run) if self.run.is_script else _of_world(self.run))

    @cached_property
    def last(self) -> dict[str, Life]:
        """The last life of each role."""
        return {life.role: life for life in self.lives}

    @property
    def command(self) -> End | None:
        return self.run.ends.get(COMMAND)

    def name_of(self, life: Life) -> str:
        """Name a role, with the number of this life if it has several."""
        return f"{life.role} (life {life.number})" if self.last[life.role].number > 1 else life.role

    @cached_property
    def success(self) -> bool:
        """Whether the program has done its work: its command ended with 0, or the last life of each role returned."""
        if self.command is not None:
            return self.command.returned
        return bool(self.last) and all(life.end.returned for life in self.last.values())

    @cached_property
    def every_role_returned(self) -> bool:
        return self.success and all(life.end.returned for life in self.lives)

    @cached_property
    def failed(self) -> list[tuple[Event, list[Link]]]:
        """The program's own calls that failed, by time, each with the chain of its error."""
        ended = self.run.timeline.of("fail", "info")
        own = [each for each in ended if not each.is_internal]
        return [(each, links_in(each)) for each in own]

    @cached_property
    def failed_by(self) -> dict[tuple[str, str], list[int]]:
        """The places in `failed` by 'identity' or 'text' of a link, and that link's."""
        found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for place, (_, links) in enumerate(self.failed):
            for key in {(name, getattr(link, name)) for link in links for name in ("identity", "text")}:
                found[key].append(place)
        return dict(found)

    def worked_until(self, fault: float, time: float) -> float:
        """Return when the last call succeeded before the first one that began after ``fault`` and failed, if that one
        had failed by ``time``; else 0."""
        place = bisect(self._failed_spans, (fault, math.inf))
        begun, ended = self._failed_spans[place] if place < len(self._failed_spans) else (0.0, 0.0)
        before = bisect(self._successes, begun)
        return self._successes[before - 1] if before and ended <= time + self.clocks else 0.0

    @cached_property
    def _failed_spans(self) -> list[tuple[float, float]]:
        """When each call of `failed` began and ended, by their beginnings."""
        return sorted((self.began(each), each.time) for each, _ in self.failed)

    @cached_property
    def _successes(self) -> list[float]:
        """When calls succeeded, in order."""
        return [event.time for event in self.run.timeline.of("ok")]

    @property
    def restarted(self) -> bool:
        """Whether a role was started again after a life that did not return."""
        return any(not each.end.returned and each is not self.last[each.role] for each in self.lives)

    @cached_property
    def failures(self) -> list[Failure]:
        """The failures of roles by time, then the command's."""
        found = [self._failure(life) for life in self.lives if life.end.kind in _FAILURES]
        found.sort(key=lambda each: each.time)
        command = self.command
        if command is not None and command.kind in _FAILURES:
            raised = [each for each in self.run.timeline.of("raised") if each.process == command.process]
            links = links_in(raised[-1]) if raised else []
            found.append(Failure(COMMAND, 1, command, command.time - self.run.zero, links))
        return found

    @cached_property
    def of_roles(self) -> list[Failure]:
        return [each for each in self.failures if each.role != COMMAND]

    def _failure(self, life: Life) -> Failure:
        kind = {"Raised": "raised", "Exited": "logged"}.get(life.end.kind)
        told = [found for event in life.events if event.event == kind and (found := links_in(event))]
        links = told[-1] if told else []
        if not links and life.end.types:
            links = [Link(life.end.types, life.end.text)]
        begins = [each.events[0].time for each in self.lives if each.events and each.process == life.process]
        return Failure(life.role, life.number, life.end, life.end.time - self.run.zero, links, min(begins, default=0.0))

    @cached_property
    def messages(self) -> proof.Proofs:
        """The calls that prove each fault of messages."""
        return proof.proofs_of(self.run.plan, self.run.timeline)

    @cached_property
    def fired(self) -> proof.Proof:
        """Whether every fault of the plan fired, as often as it says."""
        return proof.fired(self.run, self.messages)

    @cached_property
    def effects(self) -> dict[int, Event | None]:
        """The first known effect of each fault."""
        return proof.first_effects(self.run, self.messages)

    @cached_property
    def has_fired(self) -> set[int]:
        """The faults that are known to have fired. An `Order` that waits in vain has an effect, and has not."""
        fired = {int(event.details["fault"]) for event in proof.firings(self.run)}
        return fired | {number for number, (hit, _) in self.messages.items() if hit}

    @cached_property
    def begun(self) -> dict[tuple[object, ...], Event]:
        """The beginning of each call, by `Event.made`."""
        return {event.made: event for event in self.run.timeline.of("invoke")}

    @cached_property
    def calls_of(self) -> dict[str, list[tuple[Event, Event | None]]]:
        """The program's own calls of each role, by their beginnings, each with its end, or None."""
        found: defaultdict[str, list[tuple[Event, Event | None]]] = defaultdict(list)
        ends = {each.made: each for each in self.run.timeline.of("ok", "fail", "info")}
        for made, each in self.begun.items():
            if not each.is_internal:
                found[each.role].append((each, ends.get(made)))
        return dict(found)

    @cached_property
    def _spans_to(self) -> dict[str, tuple[list[float], list[float]]]:
        """When the program's own calls to each role began, and when they ended, each in order."""
        found: defaultdict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
        for begun, end in (each for calls in self.calls_of.values() for each in calls):
            begins, ends = found[str(begun.details.get("to"))]
            begins.append(begun.time)
            ends += [] if end is None else [end.time]
        return {role: (sorted(begins), sorted(ends)) for role, (begins, ends) in found.items()}

    def open_to(self, role: str, time: float) -> int:
        """Return how many of the program's own calls to this role were open then."""
        begins, ends = self._spans_to.get(role, ([], []))
        return bisect(begins, time) - bisect_left(ends, time)

    def began(self, ended: Event) -> float:
        """Return when a call began, by its end."""
        return self.begun.get(ended.made, ended).time

    def reached_its_limit(self, failed: Event) -> bool:
        """Whether a call that failed had lasted as long as it may."""
        limit = float(self.begun.get(failed.made, failed).details.get("timeout", 0.0))
        return 0 < limit <= float(failed.details.get("seconds", 0.0)) + TICK

    @cached_property
    def clocks(self) -> float:
        """How far the clocks of the roles may be apart: those of several machines are aligned by their wall clocks."""
        machines = {event.details.get("boot") for event in self.run.timeline.of("start")} - {None, ""}
        return CLOCKS if len(machines) > 1 else 0.0

    @cached_property
    def effect_times(self) -> list[float]:
        """The times at which a fault is known to have fired."""
        found = [*proof.firings(self.run), *(event for event in self.effects.values() if event is not None)]
        found += [proof.begun(each) for hit, _ in self.messages.values() for each in hit]
        return sorted(event.time for event in found)

    @cached_property
    def killed(self) -> dict[tuple[str, int], list[Event]]:
        """The roles' processes that the plan killed, and the firings that did, by time."""
        return crashes(self.run.timeline)

    def crashes_of(self, failure: Failure) -> list[Event]:
        """Return the firings that have hit the process of a failure, by time."""
        role, process = failure.role, failure.end.process
        return [
            event
            for (hit, pid), events in self.killed.items()
            if pid == process and role in (hit, COMMAND)
            for event in events
        ]


def crashes(timeline: Timeline) -> dict[tuple[str, int], list[Event]]:
    """Return the processes that the crashes of a plan have hit, by role and id, which is that of one machine or
    container; each with the events of the firings, by time."""
    found: defaultdict[tuple[str, int], list[Event]] = defaultdict(list)
    for event in timeline.of("fired"):
        if event.details.get("kind") in _ENDING:
            role = str(event.details.get("role", event.role))  # of a call's fault its callee
            found[role, int(event.details.get("pid", event.process))].append(event)
    return dict(found)


def how_all_ended(facts: Facts) -> dict[str, str]:
    """Say how each role ended, of several lives the last, and the command."""
    command = {} if facts.command is None else {COMMAND: facts.command.text}
    return {**{role: life.end.text for role, life in facts.last.items()}, **command}


def player(role: str) -> str:
    """Name a role, or the command, in a text."""
    return "the command" if role == COMMAND else role


def short(text: str, longest: int = 120) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def links_in(event: Event) -> list[Link]:
    """Return the chain of the error that an event tells."""
    return from_json(event.details.get("links"))


def _last(events: Sequence[Event], kind: str) -> Event | None:
    return next((event for event in reversed(events) if event.event == kind), None)


def _of_world(run: Run) -> list[Life]:
    lost = {end.process: end for end in run.lost}
    found = []
    for role, last in run.ends.items():
        lives = _lives_of(run.timeline, role)
        if lives and _pid(lives[-1][0]) in lost:
            lives.append([])  # the last process ended before it opened the ledger
        lives = lives or [run.timeline.by(role)]
        for number, events in enumerate(lives, 1):
            process = _pid(events[0]) if events else 0
            time = (events[-1].time if events else 0.0) + run.zero
            time = min((end.time for end in run.lost if end.time >= time), default=time)  # who was lost ended before it
            with_world = End(GONE, "was ended with its world, which was started again", time)
            end = last if number == len(lives) else lost.get(process, with_world)
            raised = _last(events, "raised") if end.kind == "Raised" else None
            links = links_in(raised) if raised is not None else []
            known = End(end.kind, end.text, end.time, links[0].types if links else end.types, process)
            found.append(Life(role, number, process, events, True, known))
    return found


def _of_script(run: Run) -> list[Life]:
    latest, killed = starts_of(run.timeline), crashes(run.timeline)
    lives = [
        (role, number, events)
        for role in roles_of(run.timeline)
        for number, events in enumerate(_lives_of(run.timeline, role), 1)
    ]
    count = Counter(_pid(events[0]) for *_, events in lives if _is_last(events, latest))
    by_itself = replace(run, running=(), gone={})
    found = []
    for role, number, events in lives:
        process, is_last = _pid(events[0]), _is_last(events, latest)
        # Nothing ended a process that has started RPC again.
        end = End("Returned", "returned", events[-1].time + run.zero, process=process)
        if is_last:
            status = run.statuses.get(process) if count[process] == 1 else None  # or nobody knows whose it is
            end = _end(run, events, process, status, killed.get((role, process), []))
        elif _last(events, "raised") is not None or _last(events, "exit") is not None:  # a later process has its id
            end = _end(by_itself, events, process, None, [])
        found.append(Life(role, number, process, events, is_last, end))
    return found


def _is_last(events: Sequence[Event], latest: Mapping[int, Event]) -> bool:
    """Whether this is the last life of its process. A process that has started RPC again writes no more of the life
    before. One that does is another process with the same id, of another machine or container."""
    start = latest[_pid(events[0])]
    return start is events[0] or start.time < events[-1].time


def _lives_of(timeline: Timeline, role: str) -> list[list[Event]]:
    """Return the events of each life of a role.

    An event without a process belongs to the latest start. An event of a process that has not started RPC, such as a
    forked child, belongs to no life.
    """
    found: list[list[Event]] = []
    current: dict[int, list[Event]] = {}
    latest = 0
    for event in timeline.by(role):
        if event.event == "start":
            latest = _pid(event)
            current[latest] = []
            found.append(current[latest])
        process = event.process or latest
        if process in current:
            current[process].append(event)
    return found


def _pid(start: Event) -> int:
    return int(start.details.get("pid", 0))


def _end(run: Run, events: Sequence[Event], process: int, status: int | None, hits: Sequence[Event]) -> End:
    """How a process that played a role ended, at its last life. What it did itself counts before what hit it."""
    time = events[-1].time + run.zero
    raised, left = _last(events, "raised"), _last(events, "exit")
    if status is None and left is not None and (left.details.get("status") is not None or process not in run.gone):
        status = int(left.details.get("status") or 0)
    if raised is not None:
        links = links_in(raised)
        cut = ", and then a signal ended it" if status is None and process in run.gone else ""
        text = f"raised {raised.details.get('error')}{cut}"
        return End("Raised", text, raised.time + run.zero, links[0].types if links else (), process)
    if status:
        return End("Exited", str(Exited(status)), time, process=process)
    if process in run.running:
        since = "was overdue" if run.ends[COMMAND].kind == "Overdue" else "had ended"
        return End(RUNNING, f"still ran when the command {since}", run.start + run.seconds, process=process)
    if hits and status is None:
        return End("Killed", _killed(hits[-1]), hits[-1].time + run.zero, process=process)
    if _last(events, "interrupted") is not None:
        return End(GONE, "was interrupted", time, process=process)
    if status is None:
        after = " after its shutdown" if _last(events, "left") is not None else ""
        return End(GONE, f"is gone without a word{after}", run.gone.get(process, time), process=process)
    return End("Returned", "returned", time, process=process)


def _killed(crash: Event) -> str:
    how = crash.details.get("how")
    number = signal_of(how)
    if number is None:
        return f"was ended by the plan, with status {status_of(how)}"
    return f"was killed by the plan, by {number.name}"
