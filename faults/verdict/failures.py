"""Name the roles that did not end as in a healthy run, and decide whether the plan, or another role's excused end,
excuses them."""

from __future__ import annotations

import builtins
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from faults.ledger.ledger import Event
from faults.ledger.record import End, Run
from faults.tracebacks.error_chain import Piece, from_json
from faults.verdict import proof, script_outcomes
from faults.verdict.error_origin import excused
from faults.verdict.given_up import may_have_given_up
from faults.verdict.store_race import may_have_lost_the_store
from reference.outcome import Killed

# The ledger of processes of a script that play no role, such as the one that starts the others; and the command's end.
COMMAND = "+command"

# How a process of a script may end that the plan kills; and how torch's threads may end one at Python's own end, after
# an uncaught error has left RPC up.
_KILLED, _ABORTED = str(Killed(signal.SIGKILL)), str(Killed(signal.SIGABRT))

# By these whoever started a process only passes on how that one ended. A role that has lost its pool has failed itself.
OF_ANOTHER = {"ProcessException", "ChildFailedError", "CalledProcessError"}
_ANSWERS = {*OF_ANOTHER, "BrokenExecutor"}
# Python's own words for code that is wrong, whatever became of others.
_MISTAKES = (
    *(NameError, AttributeError, TypeError, LookupError, ArithmeticError, ImportError, SyntaxError),
    *(NotImplementedError, RecursionError),
)


@dataclass(frozen=True)
class Failure:
    """``time``: on the timeline; ``causes``: of its error, itself first, empty where none is known; ``process``: 0
    where it is not known."""

    role: str
    kind: str
    text: str
    time: float
    causes: Sequence[Piece] = ()
    process: int = 0

    def __str__(self) -> str:
        return f"{self.role} {self.text if len(self.text) < 120 else f'{self.text[:117]}...'}"


def judged(run: Run) -> list[tuple[Failure, bool | None]]:
    """Each failure with whether it is excused; None where the ledgers do not tell."""
    found = [(each, _excused(run, each, follows=False)) for each in _of_roles(run)]
    best = _best(found)
    if best is not False:  # then others may have lost who ended so
        found = [(each, holds or _following(run, each, best)) for each, holds in found]
    return found + [(each, _of_command(run, each, found)) for each in _of_commands(run)]


def _best(found: Sequence[tuple[Failure, bool | None]]) -> bool | None:
    """True where one is excused, else None where one may be."""
    known = [holds for _, holds in found]
    return True if True in known else None if None in known else False


def _following(run: Run, failure: Failure, first: bool | None) -> bool | None:
    """Whether it is excused, given that the end of another is, or may be (None): then so is what follows from it."""
    holds = _excused(run, failure, follows=True)
    return None if first is None and holds else holds


def wanted(run: Run) -> str:
    """What would have been excused, in words."""
    kinds = ", ".join(dict.fromkeys(fault.kind for fault in run.plan.faults)) or "no fault"
    killed = "".join(f", {role} killed" for role in sorted(victims(run)))
    return f"an error that comes from {kinds}{killed}"


def victims(run: Run) -> set[str]:
    """Whom the plan kills: the callee that fired a crash, or the role that it names."""
    found = set()
    for event in proof.firings(run):
        fault = run.plan.faults[event.details["fault"]]
        if fault.kind == "Crash":
            found.add(str(fault.role) if fault.place == "process" else event.role)
    return found


def _is_victim(run: Run, failure: Failure) -> bool:
    """Whether the plan has killed this role; and this process, where the ledgers tell: several may play one role."""
    return failure.role in victims(run) and (not failure.process or _is_planned(run, failure.process))


def _is_planned(run: Run, process: int) -> bool:
    """Whether the plan has killed this process, or one that no ledger names."""
    return not script_outcomes.planned(run.timeline).isdisjoint({0, process})


def ungraceful(run: Run) -> set[str]:
    """Roles that have shut RPC down for themselves alone: what torch has freed by then is left to chance."""
    return {event.role for event in run.timeline.of("shutdown") if not event.details.get("graceful", True)}


def _of_roles(run: Run) -> list[Failure]:
    """Those of roles, and every error that has ended one."""
    events = [event for event in run.timeline.of("raised") if event.role in run.ends or not _is_command(event.role)]
    told = {event.role for event in events if not _is_command(event.role)}
    found = [_of_event(event) for event in events if not _is_command(event.role)]
    for role, end in run.ends.items():
        known = end.returned or end.kind in ("Overdue", "Running")  # other checks speak of these
        if not known and not _is_command(role) and not (end.kind == "Raised" and role in told):
            found.append(_of_end(run, role, end))
    return sorted(found, key=lambda failure: failure.time)  # who ended first is named first


def _of_commands(run: Run) -> list[Failure]:
    """The command's end, and the errors of processes that play no role."""
    found = [
        _of_end(run, role, end)
        for role, end in run.ends.items()
        if _is_command(role) and not end.returned and end.kind != "Overdue"
    ]
    # Nobody has to hear of an error that the command itself makes nothing of.
    return found + [_of_event(event) for event in run.timeline.of("raised") if found and _is_command(event.role)]


def _is_command(role: str) -> bool:
    return role.startswith("+")


def _of_end(run: Run, role: str, end: End) -> Failure:
    causes = end.causes
    if end.kind == "Raised" and not causes:
        causes = (Piece(tuple(base.rpartition(".")[2] for base in end.bases) or ("",), end.text),)
    return Failure(role, end.kind, end.text, end.time - run.start, causes, end.process)


def _of_event(event: Event) -> Failure:
    causes = from_json(event.details.get("causes"))
    if not causes:
        causes = [Piece(tuple(event.details.get("bases") or ("",)), str(event.details.get("error")))]
    return Failure(event.role, "Raised", f"raised {event.details.get('error')}", event.time, causes, event.process)


def _excused(run: Run, failure: Failure, *, follows: bool) -> bool | None:
    """Of a role."""
    if failure.kind == "Raised":
        return _of_error(run, failure, follows)
    if failure.kind == "Killed":
        return _is_victim(run, failure) or _may_be_torchs(run, failure, follows)
    if failure.kind == "Ended":  # a pool ends all its processes when one is gone, that one too
        return follows or _is_victim(run, failure)
    if failure.kind == "Stuck":  # by a time-out of its program's, or by one that ends its roles whatever they do
        return True if follows or _is_victim(run, failure) else None
    if COMMAND not in run.ends:
        return False  # no role of a world of ours ends by a status of its own
    if failure.causes:
        return _of_error(run, failure, follows)
    return _by_its_calls(run, failure, follows)


def _of_error(run: Run, failure: Failure, follows: bool) -> bool | None:
    """Of the error that has ended a role, or that it was handling then."""
    holds = excused(run, failure.causes, failure.time, follows=follows)
    if holds is not False:
        return holds
    given_up = may_have_given_up(run, failure.causes, [failure.role], failure.process)
    torchs = may_have_lost_the_store(run, failure.causes, failure.time, failure.role, failure.process)
    return None if given_up or torchs else False


def _may_be_torchs(run: Run, failure: Failure, follows: bool) -> bool | None:
    """Whether torch may have crashed it: its threads abort where what a peer sent is torn, and an RRef that the plan
    kept from being made corrupts the heap when it is dropped. Of a script's roles nobody knows by which signal."""
    aborted = follows and failure.text == _ABORTED
    return None if aborted or _has_lost_an_rref(run, failure, failure.role) else False


def _has_lost_an_rref(run: Run, failure: Failure, role: str) -> bool:
    lost = [event for event in run.timeline.of("info") if event.may_be_of(role, failure.process)]
    return failure.text != _KILLED and any(
        event.details.get("via") == "remote" and excused(run, from_json(event.details.get("causes")), event.time)
        for event in lost
    )


def _by_its_calls(run: Run, failure: Failure, follows: bool) -> bool | None:
    """It has ended by its own decision, and said nothing. Who only left may have left for its last call, if that has
    failed; a status says that something is wrong, and may as well speak of a result."""
    ended = [event for event in run.timeline.of("ok", "fail", "info") if event.may_be_of(failure.role, failure.process)]
    for event in reversed(ended):
        causes = from_json(event.details.get("causes"))
        if event.event != "ok" and excused(run, causes, event.time, follows=follows):
            return True if failure.kind == "Vanished" and event is ended[-1] else None
    return False if failure.kind == "Vanished" else _undecided(run)


def _undecided(run: Run) -> bool | None:
    """Whether a status that nobody explains may come from the plan: from a `Duplicate` only what a ledger tells of."""
    fired = [number for number, event in proof.bites(run).items() if event is not None]
    return None if any(run.plan.faults[number].kind != "Duplicate" for number in fired) else False


def _of_command(run: Run, failure: Failure, roles: Sequence[tuple[Failure, bool | None]]) -> bool | None:
    """A command says by its status, or by an error, that something went wrong: with a role, which is judged, or else
    with itself. It may be a role too."""
    if failure.kind == "Killed":
        return _of_killed_command(run, failure)
    if failure.kind == "Raised":
        holds = excused(run, failure.causes, failure.time, follows=bool(roles))
        if holds is False and not roles:  # every role has returned, also one that has told of its failure
            return None if may_have_given_up(run, failure.causes, run.timeline.roles) else False
        return holds if holds or not roles else _answers(failure.causes)
    if roles or any(event.role == COMMAND for event in run.timeline.of("raised")):
        return True  # they are judged beside it
    return _undecided(run)


def _of_killed_command(run: Run, failure: Failure) -> bool | None:
    """By the plan, where it plays the role that the plan kills. None: it may have killed itself, as it lost another."""
    if failure.text == _ABORTED and run.timeline.of("raised"):
        return True
    if any(_has_lost_an_rref(run, failure, role) for role in run.timeline.roles):
        return None
    if failure.text != _KILLED or not victims(run):
        return False
    return _is_planned(run, failure.process) or None


def _answers(causes: Sequence[Piece]) -> bool | None:
    """Whether an error of a process that plays no role is its answer to the end of a role: it passes that end on, or
    the program itself states it, by `raise` or `assert`. A mistake of its code is none. None: of all others."""
    own = causes[0]
    if any(not _ANSWERS.isdisjoint(piece.bases) for piece in causes):
        return True
    kind = getattr(builtins, own.name, None)
    if isinstance(kind, type) and issubclass(kind, _MISTAKES):
        return False
    return True if own.raised or own.name == "AssertionError" else None
