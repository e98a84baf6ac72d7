"""Tell which RRefs and autograd contexts are leaks, from what all roles of a world held at one moment; name them.

A leak is certain:

- An RRef that only values of RRefs hold, to which no variable of any role leads. Programs cannot use it, and its owner
  keeps its value.
- An RRef that a global variable holds, and that its role has not used since it got another RRef of the same owner by
  the same lines. The program has gone on without it.
- An autograd context that nothing can leave, or that is open when all roles have ended their work.

All else is in use, or may be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from faults.ledger.ledger import Event, Timeline
from faults.ledger.snapshot import FUNCTION, GLOBAL, TRACED, VALUE, Entered, Held, Ident, Sent, Snapshot, from_events

# The ids of a group of RRefs that are named.
NAMED = 5
NO_LINE = "a line that was not seen"

_GOT = {"argument": "an argument", "answer": "in an answer", "fetched": "where it fetched it"}


class Names:
    """The names of workers and of the lines where RRefs were made."""

    def __init__(self, snapshots: Mapping[str, Snapshot]) -> None:
        self._roles = {snapshot.worker: role for role, snapshot in snapshots.items()}
        self._made = {
            (snapshot.worker, number): made.line
            for snapshot in snapshots.values()
            for made in snapshot.made
            for number in made.numbers
        }

    def told(self, role: str, held: Held) -> str:
        """Say who holds which RRefs, since when, by which variable, and where they were made."""
        forks = "fork" if len(held.rrefs) == 1 else "forks"
        who = f"held by {role} itself" if held.owner == role else f"{forks} held by {role}"
        what = f"{group(held.rrefs)} of {held.owner}"
        return f"{what}: {who}{self._since(role, held)}; {held.by} holds {it(held)}"

    def _since(self, role: str, held: Held) -> str:
        since = f" since {held.line or NO_LINE}"
        if held.how == "made":
            return f"{since}, where {role} made {it(held)}"
        return f"{since} ({_GOT[held.how]}), {self.made_by(held.rrefs)}"

    def made_by(self, rrefs: tuple[Ident, ...]) -> str:
        """Say which roles made these RRefs, and where."""
        makers = {self._roles.get(worker, f"worker {worker}") for worker, _ in rrefs}
        lines = {self._made.get(rref, "a line that is not known") for rref in rrefs}
        return f"made by {' and '.join(sorted(makers))} at {' and '.join(sorted(lines))}"


def group(rrefs: tuple[Ident, ...]) -> str:
    numbers = [str(number) for _, number in rrefs[:NAMED]]
    if len(rrefs) == 1:
        return f"RRef {numbers[0]}"
    return f"{len(rrefs)} RRefs ({', '.join([*numbers, *(['...'] if len(rrefs) > NAMED else [])])})"


def it(group: Held | Sent) -> str:
    return "it" if len(group.rrefs) == 1 else "them"


def context(role: str, each: Entered) -> str:
    gone = ", and nothing is left that can leave it" if each.abandoned else ""
    return f"autograd context {each.number} of {role}: entered at {each.line or NO_LINE}, not left{gone}"


_EVENTS = ("start", "held", "made", "context", TRACED)

Snapshots = Mapping[str, Snapshot]


def taken(timeline: Timeline) -> list[dict[str, Snapshot]]:
    """Return what the roles of each world held when they had ended their work. Raises ValueError: no role wrote it."""
    worlds: dict[tuple[str, int], dict[str, Snapshot]] = {}
    for role in timeline.roles:
        for world, snapshot in _of_role(role, timeline):
            worlds.setdefault(world, {})[role] = snapshot
    return list(worlds.values())


def _of_role(role: str, timeline: Timeline) -> Iterator[tuple[tuple[str, int], Snapshot]]:
    """Yield each snapshot of a role with its world: where that world met, and which of those that met there it is."""
    lives: list[str] = []
    open_events: dict[int, list[Event]] = {}
    world: dict[int, tuple[str, int]] = {}
    for event in (each for each in timeline.of(*_EVENTS) if each.role == role):
        if event.event == "start":
            lives.append(str(event.details.get("world")))
            world[event.process] = (lives[-1], lives.count(lives[-1]))
            open_events[event.process] = []
            continue
        open_events.setdefault(event.process, []).append(event)
        if event.event == TRACED:
            own = [(each.event, each.details) for each in open_events.pop(event.process)]
            yield world.get(event.process, ("", 0)), from_events(role, own)


def of_timeline(timeline: Timeline) -> tuple[list[str], list[str]]:
    """Return the leaks of a run that traced RRefs and autograd contexts, and notes: what was held to the end, but is no
    leak, and whose snapshot is missing.

    Raises ValueError: the ledgers hold what no role writes.
    """
    found: list[str] = []
    notes = [f"what {role} held is not known: {why}" for role, why in _missing(timeline).items()]
    for snapshots in taken(timeline):
        ups = (event for event in timeline.of("up") if event.role in snapshots)
        workers = {name for event in ups for name in event.details.get("workers") or ()}
        found += leaks(snapshots, ended=True, every=workers == set(snapshots) and are_settled(snapshots))
        notes += [f"held to the end: {each}" for each in kept(snapshots)]
    return found, notes


def _missing(timeline: Timeline) -> dict[str, str]:
    """Return the roles that began to trace more often than they took a snapshot, each with the reason."""
    missing: dict[str, str] = {}
    for role in timeline.roles:
        own = [each for each in timeline.of("tracing", TRACED, "untraced") if each.role == role]
        if sum(each.event == "tracing" for each in own) > sum(each.event == TRACED for each in own):
            errors = [str(each.details.get("error")) for each in own if each.event == "untraced"]
            missing[role] = errors[-1] if errors else "it took no part in a common shutdown of a world of fixed size"
    return missing


def leaks(snapshots: Snapshots, *, ended: bool, every: bool) -> list[str]:
    """Name what has leaked. ``ended``: the roles have ended their work; ``every``: the snapshot of every role is there,
    and nothing happened to RRefs meanwhile. Otherwise nothing can be said about values of RRefs."""
    rooted, names = _rooted(snapshots), Names(snapshots)
    found = []
    for role, snapshot in snapshots.items():
        for held in snapshot.held:
            if every and held.root == VALUE and rooted.isdisjoint(held.of):
                found.append(f"{names.told(role, held)}, and no variable of any role leads there")
            elif held.root == GLOBAL and held.idle and ended:
                found.append(
                    f"{names.told(role, held)}, and {role} has got another there since it last used {it(held)}"
                )
        found += [context(role, each) for each in snapshot.contexts if ended or each.abandoned]
    return found


def are_settled(snapshots: Snapshots) -> bool:
    """Whether no RRef is on its way from one of these roles to another: as many were received as sent."""
    return sum(each.pickled for each in snapshots.values()) == sum(each.unpickled for each in snapshots.values())


def kept(snapshots: Snapshots) -> list[str]:
    """Name what variables hold, but is no leak for certain: RRefs of globals, and idle ones of running functions."""
    names = Names(snapshots)
    return [
        names.told(role, held)
        for role, snapshot in snapshots.items()
        for held in snapshot.held
        if (held.root == GLOBAL and not held.idle) or (held.root == FUNCTION and held.idle)
    ]


def everything(snapshots: Snapshots) -> list[str]:
    """Name all RRefs that are held, and all contexts that are open."""
    names = Names(snapshots)
    found = [names.told(role, held) for role, snapshot in snapshots.items() for held in snapshot.held]
    return found + [context(role, each) for role, snapshot in snapshots.items() for each in snapshot.contexts]


def last_seen(snapshots: Snapshots, silent: str) -> list[str]:
    """Name the RRefs that other roles sent to a role which does not answer. It may hold them, or not."""
    names = Names(snapshots)
    return [
        f"{group(sent.rrefs)}, {names.made_by(sent.rrefs)}: last seen when {role} sent {it(sent)} to {silent} "
        f"at {sent.line or NO_LINE}"
        for role, snapshot in snapshots.items()
        for sent in snapshot.sent
        if sent.to == silent
    ]


def _rooted(snapshots: Snapshots) -> set[Ident]:
    """Return the RRefs to which variables lead, directly or through values of other RRefs, and those that may be in use
    or on their way out: something unseen holds them, or no role does, but a value still lives."""
    every = [held for snapshot in snapshots.values() for held in snapshot.held]
    found = {rref for held in every if held.root != VALUE for rref in held.rrefs}
    found |= {rref for held in every for rref in held.of} - {rref for held in every for rref in held.rrefs}
    size = -1
    while size < len(found):
        size = len(found)
        found.update(rref for held in every if not found.isdisjoint(held.of) for rref in held.rrefs)
    return found
