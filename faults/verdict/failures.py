"""Name the roles that did not end as in a healthy run, and decide whether the plan excuses each of them.

The plan may excuse a role's end directly, or by the excused end of another role.
"""

from __future__ import annotations

import builtins
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from faults.ledger.ledger import Event
from faults.ledger.record import End, Run
from faults.tracebacks.error_chain import Piece, from_json
from faults.verdict import proof
from faults.verdict.detections import detected
from faults.verdict.error_origin import excused
from faults.verdict.given_up import is_stated, may_have_given_up
from faults.verdict.planned_crashes import planned
from faults.verdict.planned_ends import crashes_of, is_planned_end, killed_texts
from faults.verdict.store_race import may_have_lost_the_store
from reference.outcome import Killed

# Names the command's end, and the ledger of a script's processes that play no role, such as the one that starts the
# others.
COMMAND = "+command"

# torch's threads may abort a process at Python's exit, if an uncaught error left RPC up.
_KILLED, _ABORTED = str(Killed(signal.SIGKILL)), str(Killed(signal.SIGABRT))

# Errors by which a parent only reports how its child ended. A role that has lost its pool has failed itself.
OF_ANOTHER = {"ProcessException", "ChildFailedError", "CalledProcessError"}
_ANSWERS = {*OF_ANOTHER, "BrokenExecutor"}
# How torch writes an exception of Python that has passed through its C++ code.
_CROSSED = re.compile(r"(?:\w+\.)*(\w*(?:Error|Exception|Exit|Interrupt))(?:: |$)")
# Errors that mean a mistake in the code, whatever happened to other roles.
_MISTAKES = (
    *(NameError, AttributeError, TypeError, LookupError, ArithmeticError, ImportError, SyntaxError),
    *(NotImplementedError, RecursionError),
)


@dataclass(frozen=True)
class Failure:
    """A role's failure. ``time``: on the timeline; ``causes``: the pieces of its error, itself first, empty if unknown;
    ``process``: 0 if unknown."""

    role: str
    kind: str
    text: str
    time: float
    causes: Sequence[Piece] = ()
    process: int = 0

    def __str__(self) -> str:
        return f"{self.role} {self.text if len(self.text) < 120 else f'{self.text[:117]}...'}"


def judged(run: Run) -> list[tuple[Failure, bool | None]]:
    """Return each failure, and whether it is excused; None: the ledgers do not tell."""
    found = [(each, _excused(run, each, follows=False)) for each in _of_roles(run)]
    best = _best(found)
    if best is not False:  # the other roles may have failed because they lost that one
        found = [(each, holds or _following(run, each, best)) for each, holds in found]
    return found + [(each, _of_command(run, each, found)) for each in _of_commands(run)]


def detected_by(run: Run) -> list[str]:
    """Return the roles that ended by an error which names the data that the plan corrupted."""
    return [each.role for each in _of_roles(run) if each.causes and detected(run, each.causes, each.time)]


def _best(found: Sequence[tuple[Failure, bool | None]]) -> bool | None:
    """Return True if one failure is excused, otherwise None if one may be."""
    known = [holds for _, holds in found]
    return True if True in known else None if None in known else False


def _following(run: Run, failure: Failure, first: bool | None) -> bool | None:
    """Whether a failure is excused if it follows from another one, which is excused, or may be (None)."""
    holds = _excused(run, failure, follows=True)
    return None if first is None and holds else holds


def wanted(run: Run) -> str:
    """Describe the errors that the plan would excuse."""
    kinds = ", ".join(dict.fromkeys(fault.kind for fault in run.plan.faults)) or "no fault"
    killed = "".join(f", {role} killed" for role in sorted(victims(run)))
    return f"an error that comes from {kinds}{killed}"


def victims(run: Run) -> set[str]:
    """Return the roles that the plan killed: the callee that fired a crash, or the role that the crash names."""
    found = set()
    for event in proof.firings(run):
        fault = run.plan.faults[event.details["fault"]]
        if fault.kind == "Crash":
            found.add(str(fault.role) if fault.place == "process" else event.role)
    return found


def _is_planned_end(run: Run, failure: Failure) -> bool:
    """Whether the plan ended this role so, and this process if it is known: several processes may play one role. A pool
    that loses one process ends all of them, that one included."""
    end = End(failure.kind, failure.text, failure.time)
    return is_planned_end(run, failure.role, end) and (not failure.process or _is_planned(run, failure.process))


def _may_be_of_its_handler(run: Run, failure: Failure) -> bool | None:
    """Whether the error may be the program's answer to the plan's SIGTERM: None if it states one, otherwise False."""
    asked = any(fault.how == "term" for fault in crashes_of(run, failure.role))
    return None if asked and (is_stated(failure.causes) or _crossed_torch(failure.causes[0])) else False


def _crossed_torch(error: Piece) -> bool:
    """Whether torch made this RuntimeError of an exception that Python code raised while torch read a message, and that
    is no mistake. The code may be the handler of a signal: not even its SystemExit ends the process then."""
    found = _CROSSED.match(error.text)
    if found is None or error.name != "RuntimeError" or error.raised or not error.place:
        return False
    kind = getattr(builtins, found[1], Exception)
    return isinstance(kind, type) and not issubclass(kind, (*_MISTAKES, AssertionError))


def _is_planned(run: Run, process: int) -> bool:
    """Whether the plan killed this process, or a process that no ledger names."""
    return not planned(run.timeline).isdisjoint({0, process})


def ungraceful(run: Run) -> set[str]:
    """Return the roles that shut RPC down without the others, so that chance decides what torch has freed by then."""
    return {event.role for event in run.timeline.of("shutdown") if not event.details.get("graceful", True)}


def _of_roles(run: Run) -> list[Failure]:
    """Return the failures of roles, and every error that ended one."""
    events = [event for event in run.timeline.of("raised") if event.role in run.ends or not _is_command(event.role)]
    told = {event.role for event in events if not _is_command(event.role)}
    found = [_of_event(event) for event in events if not _is_command(event.role)]
    for role, end in run.ends.items():
        known = end.returned or end.kind in ("Overdue", "Running")  # the check `ends` names these
        if not known and not _is_command(role) and not (end.kind == "Raised" and role in told):
            found.append(_of_end(run, role, end))
    return sorted(found, key=lambda failure: failure.time)  # the verdict names the first failure first


def _of_commands(run: Run) -> list[Failure]:
    """Return the command's failed end, and the errors of processes that play no role."""
    found = [
        _of_end(run, role, end)
        for role, end in run.ends.items()
        if _is_command(role) and not end.returned and end.kind != "Overdue"
    ]
    # If the command itself returned, its processes' errors did not matter to it.
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
    """Whether a role's failure is excused."""
    if _is_planned_end(run, failure):
        return True
    if failure.kind == "Raised":
        holds = _of_error(run, failure, follows)
        return _may_be_of_its_handler(run, failure) if holds is False else holds
    if failure.kind == "Killed":
        return _may_be_torchs(run, failure, follows)
    if failure.kind == "Ended":
        return follows
    if failure.kind == "Stuck":  # the program ended it, by a time-out of its own or in any case
        return True if follows else None
    if COMMAND not in run.ends:
        return False  # in a world of `launch` no role chooses an exit status
    if failure.causes:
        return _of_error(run, failure, follows)
    return _by_its_calls(run, failure, follows)


def _of_error(run: Run, failure: Failure, follows: bool) -> bool | None:
    """Whether the error that ended a role, or that the role was handling at its end, is excused."""
    holds = excused(run, failure.causes, failure.time, follows=follows)
    if holds is not False:
        return holds
    given_up = may_have_given_up(run, failure.causes, [failure.role], failure.process)
    torchs = may_have_lost_the_store(run, failure.causes, failure.time, failure.role, failure.process)
    return None if given_up or torchs else False


def _may_be_torchs(run: Run, failure: Failure, follows: bool) -> bool | None:
    """Whether torch may have crashed it. torch's threads abort if a peer's message is torn; an RRef whose creation the
    plan prevented corrupts the heap when it is dropped. The signal that ended a script's role is unknown."""
    aborted = follows and failure.text == _ABORTED
    return None if aborted or _has_lost_an_rref(run, failure, failure.role) else False


def _has_lost_an_rref(run: Run, failure: Failure, role: str) -> bool:
    lost = [event for event in run.timeline.of("info") if event.may_be_of(role, failure.process)]
    return failure.text != _KILLED and any(
        event.details.get("via") == "remote" and excused(run, from_json(event.details.get("causes")), event.time)
        for event in lost
    )


def _by_its_calls(run: Run, failure: Failure, follows: bool) -> bool | None:
    """Whether a role that ended by its own decision, without an error, is excused by its failed calls.

    A role that only vanished may have left because its last call failed. An exit status says that something is wrong,
    but that may be a result, so it is unknown at best.
    """
    ended = [event for event in run.timeline.of("ok", "fail", "info") if event.may_be_of(failure.role, failure.process)]
    for event in reversed(ended):
        causes = from_json(event.details.get("causes"))
        if event.event != "ok" and excused(run, causes, event.time, follows=follows):
            return True if failure.kind == "Vanished" and event is ended[-1] else None
    return False if failure.kind == "Vanished" else _undecided(run)


def _undecided(run: Run) -> bool | None:
    """Whether a status without an explanation may come from the plan. From a `Duplicate` it cannot: a ledger would
    tell."""
    fired = [number for number, event in proof.first_effects(run).items() if event is not None]
    return None if any(run.plan.faults[number].kind != "Duplicate" for number in fired) else False


def _of_command(run: Run, failure: Failure, roles: Sequence[tuple[Failure, bool | None]]) -> bool | None:
    """Whether the command's failure is excused.

    By its status or its error a command reports that a role failed, which is judged separately, or that it failed
    itself. It may play a role, too.
    """
    if failure.kind == "Killed":
        return _of_killed_command(run, failure)
    if failure.kind == "Raised":
        holds = excused(run, failure.causes, failure.time, follows=bool(roles))
        if holds is False and not roles:  # every role returned, even one that reported its failure to the command
            return None if may_have_given_up(run, failure.causes, run.timeline.roles) else False
        return holds if holds or not roles else _answers(failure.causes)
    if roles or any(event.role == COMMAND for event in run.timeline.of("raised")):
        return True  # those failures are judged separately
    return _undecided(run)


def _of_killed_command(run: Run, failure: Failure) -> bool | None:
    """Whether the plan killed the command, because the command plays the killed role. None: it may have killed itself
    when it lost another role."""
    if failure.text == _ABORTED and run.timeline.of("raised"):
        return True
    if any(_has_lost_an_rref(run, failure, role) for role in run.timeline.roles):
        return None
    if failure.text not in {text for role in victims(run) for text in killed_texts(run, role)}:
        return False
    return _is_planned(run, failure.process) or None


def _answers(causes: Sequence[Piece]) -> bool | None:
    """Whether an error of a process that plays no role only reports the end of a role.

    True if it passes that end on, or the program raised it by `raise` or `assert`; False for a mistake in the code;
    None for all others.
    """
    own = causes[0]
    if any(not _ANSWERS.isdisjoint(piece.bases) for piece in causes):
        return True
    kind = getattr(builtins, own.name, None)
    if isinstance(kind, type) and issubclass(kind, _MISTAKES):
        return False
    return True if own.raised or own.name == "AssertionError" else None
