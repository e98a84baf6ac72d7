"""Judge a run by its facts: rules in a fixed order, of which the first that does not hold gives the verdict.

docs/verdicts.md has them for users. A rule holds, fails, or is unknown because the folder does not tell. If all hold,
the run has passed, and the verdict says how: ``equal``, ``recovered``, ``unchecked`` or ``failed loudly``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from faults.judge import holdings, proof
from faults.judge.causes import told, without_effect
from faults.judge.facts import GONE, RUNNING, Facts, Failure, Life, links_in, player, short
from faults.judge.gaps import gaps
from faults.ledger.error_links import CALLEE, Link
from faults.ledger.ledger import Event
from faults.ledger.record import COMMAND, Run
from faults.ledger.snapshot import COUNTS
from faults.plan.crash_ways import signals_of_end
from reference.outcome import Killed
from reference.system.text import one_line

# Verdicts that never pass, in the order of their rules.
DEFECTS = ("hung", "leaked", "wrong", "needless failure", "not fired")
UNKNOWN = "unknown"
# Verdicts of runs that passed: three of runs that have done their work, one of runs that failed as they should.
SUCCESSES, LOUD = ("equal", "recovered", "unchecked"), "failed loudly"

# Errors that mean a mistake in the code, with all classes that derive from them; and those that no data can cause.
MISTAKES = {
    *("AssertionError", "NameError", "AttributeError", "TypeError", "LookupError", "ArithmeticError", "ImportError"),
}
_OF_NO_DATA = {"NameError", "ImportError"}
# Errors that end a wait which has reached its limit.
TIMEOUTS = {"TimeoutError", "BrokenBarrierError", "Empty", "Full", "TimeoutExpired", "DistStoreError"}
# torch's code of a time-out of RPC, which torch itself knows it by, and its words for others, such as those of gloo,
# which have no type of their own. Messages of its engine are no recorded calls.
_TIMED_OUT = ("RPCErr:1:", "Timed out waiting")

# How many places are named where an overdue script's processes wait.
_PLACES = 8

HOW_TO_COMPARE = "--check, --same-output or --same-file says what is right"


@dataclass(frozen=True)
class Check:
    """What came of one rule. ``holds``: None if unknown; ``verdict``: the run's if the rule fails."""

    name: str
    verdict: str
    holds: bool | None
    text: str

    def __str__(self) -> str:
        mark = {True: "pass", False: "FAIL", None: "unknown"}[self.holds]
        return one_line(f"{mark:<7}  {self.name}: {self.text}")


@dataclass(frozen=True)
class Judgement:
    """What came of all rules, the verdict that follows, and facts that convict nobody, one line each."""

    checks: tuple[Check, ...]
    verdict: str
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool | None:
        """Whether the run passed; None: unknown."""
        return False if self.verdict in DEFECTS else None if self.verdict == UNKNOWN else True

    @property
    def succeeded(self) -> bool:
        """Whether the program has done its work, as far as anybody said what is right."""
        return self.verdict in SUCCESSES

    @property
    def status(self) -> int:
        return exit_status(self.passed)

    @property
    def complaints(self) -> list[Check]:
        """The rules that do not hold."""
        return [check for check in self.checks if check.holds is not True]

    def __str__(self) -> str:
        held = [check.name for check in self.checks if check.holds is True]
        passed = [f"pass     {', '.join(held)}"] if held else []
        return "\n".join([*map(str, self.complaints), *passed, *map(one_line, self.notes), f"verdict: {self.verdict}"])


def exit_status(passed: bool | None) -> int:
    """Return the exit status of a command: 0 pass, 1 fail, 3 unknown. (2 is bad input.)"""
    return {True: 0, False: 1, None: 3}[passed]


def judge(run: Run, *, expected: Sequence[str] = ()) -> Judgement:
    """Apply every rule, and derive the verdict. ``expected``: the types of which a failure has to be one, by their
    names."""
    facts = Facts(run)
    checks = (
        *(_record(facts), _ends(facts), _left(facts), _result(facts)),
        *(_errors(facts, expected), _needed(facts, expected), _fired(facts), _evidence(facts)),
    )
    broken = next((check for check in checks if check.holds is not True), None)
    verdict = _passing(facts) if broken is None else UNKNOWN if broken.holds is None else broken.verdict
    notes = () if run.gaps else tuple(_notes(facts, verdict))  # a changed file tells of another run
    return Judgement(checks, verdict, notes)


def _passing(facts: Facts) -> str:
    if not facts.success:
        return LOUD
    if facts.run.trace != "equal":
        return "unchecked"
    return "recovered" if facts.restarted else "equal"


def _record(facts: Facts) -> Check:
    """The record is whole: no file is missing, torn or changed, RPC was seen, and `faults` itself did not fail."""
    timeline, found = facts.run.timeline, gaps(facts)
    events = f"{len(timeline.events)} events in {len(timeline.roles)} ledgers"
    return Check("record", UNKNOWN, None if found else True, "; ".join(found) or events)


def _ends(facts: Facts) -> Check:
    """Everything ended by the deadline, and who failed ended within the bound after the last fault before that, or
    after the begin of its process, or after the program had worked."""
    run = facts.run
    if not run.complete:
        return Check("ends", "hung", None, "not recorded")
    if not run.ends:
        return Check("ends", "hung", None, "no end is recorded, wanted one of every role")
    late = [role for role, end in run.ends.items() if end.kind == "Overdue"]
    # One that raised, or had a status, may still run: a thread of it, or a destructor.
    running = [life.role for life in facts.lives if life.last and life.process in run.running]
    if late:
        besides = f" while {', '.join(running)} still ran" if running else ""
        text = f"{_lateness(run, late)}{besides}{_waiting(run)}, wanted an end of every role"
        return Check("ends", "hung", False, text)
    if running and facts.command is not None and facts.command.kind == "Killed":
        seconds = run.start + run.seconds - facts.command.time
        by_plan = facts.command.process in {process for _, process in facts.killed}
        killed = ", which the plan had killed" if by_plan else ", which was killed"
        still = f"{', '.join(running)} still ran {seconds:.1f} s after the command"
        return Check("ends", "hung", False, f"{still}{killed}, wanted an end of every role")
    slow = [text for each in facts.failures if not is_store_race(facts, each) if (text := _too_late(facts, each))]
    return Check("ends", "hung", not slow, "; ".join(slow) or "in time")


def _lateness(run: Run, late: Sequence[str]) -> str:
    """Name the roles that missed the deadline, and those given up before it, with the reason."""
    given_up = [role for role in late if not run.ends[role].text.startswith("was overdue")]
    missed = ", ".join(player(role) for role in late if role not in given_up)
    found = [f"{missed} missed the deadline"] if missed else []
    return "; ".join([*found, *(f"{player(role)} {short(run.ends[role].text)}" for role in given_up)])


def _waiting(run: Run) -> str:
    """Tell where the roles of an overdue script waited; of a script without roles, where its processes did."""
    roles = [name for name in run.waits if name.rpartition(" (process ")[0] in run.timeline.roles]
    named = [f"{name} waits at {run.waits[name]}" for name in roles or run.waits]
    more = [f"{len(named) - _PLACES} more"] if len(named) > _PLACES else []
    return "".join(f"; {each}" for each in (*named[:_PLACES], *more))


def lateness(facts: Facts, failure: Failure) -> tuple[float, str, float, str]:
    """Return how many seconds a failure came after what, and how many are allowed, with their reason."""
    before = [time for time in facts.effect_times if time <= failure.time + facts.clocks]
    if not before:
        return 0.0, "the start", math.inf, "no fault had fired"
    since, what = before[-1], "the last fault before that"
    if failure.role == COMMAND:  # it may have waited for the roles, of which each had its own time
        zero = facts.run.zero
        ended = [life.end.time - zero for life in facts.lives if life.end.kind not in (GONE, RUNNING)]
        after = [time for time in ended if since < time <= failure.time]
        since, what = max(after, default=since), "the last role's end" if after else what
    else:  # a fault that still stands, such as a dead peer, may be met later: by a new process, or by the first call
        worked = facts.worked_until(since, failure.time), "the last call that succeeded before it was met"
        since, what = max((since, what), (failure.began, "the begin of its process"), worked)
    most, computed = facts.allowed(before[-1])
    return max(0.0, failure.time - since), what, most, computed


def _too_late(facts: Facts, failure: Failure) -> str:
    """Say how much too late a failure came; empty if it did not."""
    late, what, most, computed = lateness(facts, failure)
    return "" if late <= most else f"{failure}, {late:.1f} s after {what}, wanted at most {most:.1f} s: {computed}"


def _left(facts: Facts) -> Check:
    """No process and no shared memory is left; if all roles returned, no RRef and no autograd context either.

    torch frees what a program still holds when all roles shut down together, so a role that shut down alone is not
    counted. If RRefs were traced, what the roles held before that is judged, too (`holdings`).
    """
    run = facts.run
    left = list(run.leaks)
    if facts.every_role_returned:
        for event in _left_together(facts):
            counts = [f"{name}={count}" for name, count in event.details.items() if count and name in COUNTS]
            left += [f"{event.role}: {' '.join(counts)}"] if counts else []
        left += holdings.of_timeline(run.timeline)[0]
    if not left and not run.complete:
        return Check("left", "leaked", None, "not recorded")
    return Check("left", "leaked", not left, "; ".join(left) or "nothing")


def _left_together(facts: Facts) -> list[Event]:
    """Return what was left by the lives of roles that did not shut down alone."""
    timeline = facts.run.timeline
    alone = {_life(event) for event in timeline.of("shutdown") if not event.details.get("graceful", True)}
    return [event for event in timeline.of("left") if _life(event) not in alone]


def _life(event: Event) -> tuple[str, int, int]:
    return event.role, event.process, event.life


def _result(facts: Facts) -> Check:
    """A result is what it should be. A program that ends well although a role is lost needs a comparison."""
    run = facts.run
    if run.trace is not None:
        holds = None if run.trace == "unknown" else run.trace == "equal"
        return Check("result", "wrong", holds, run.difference or run.trace)
    ended = [each for each in facts.of_roles if facts.success and not of_torch(facts, each)]
    if lost := [each for each in ended if facts.last[each.role].number == each.life]:
        text = f"{'; '.join(map(str, lost))}, and the command ended with status 0: {HOW_TO_COMPARE}"
        return Check("result", "wrong", False, text)
    return Check("result", "wrong", True, "not compared")


def _errors(facts: Facts, expected: Sequence[str]) -> Check:
    """No role failed before a fault fired, by a mistake in the code, or in a world by a signal of nobody's."""
    found = []
    for failure in facts.failures:
        if failure.end.kind == "Overdue" or _is(failure, expected) or of_torch(facts, failure):
            continue
        if why := _unasked(facts, failure) or _by_signal(facts, failure) or _mistake(facts, failure):
            found.append(f"{failure}: {why}")
    if expected and facts.failures and not facts.success and not any(_is(each, expected) for each in facts.failures):
        found = [f"{'; '.join(found or map(str, facts.failures))}: wanted {' or '.join(expected)}"]
    return Check("errors", "wrong", not found, "; ".join(found) or "none that convicts the program")


def _is(failure: Failure, expected: Sequence[str]) -> bool:
    """Whether a link of the failure's chain is of one of these types."""
    return any(name in expected for link in failure.links for name in link.types)


def _unasked(facts: Facts, failure: Failure) -> str:
    """Say that no fault had fired before a failure; empty if one had, or if the ledgers do not tell."""
    if failure.role == COMMAND and facts.of_roles:
        return ""  # it passes that on
    silent = any(facts.effects[number] is None for number in facts.run.plan.at("message"))
    if silent or any(time <= failure.time + facts.clocks for time in facts.effect_times):
        return ""
    return "no fault had fired" if facts.run.has_faults else "no fault was planned"


def _by_signal(facts: Facts, failure: Failure) -> str:
    """Say that a signal ended a role of a world which neither the plan nor the launcher sent; empty if none did."""
    if facts.run.is_script or failure.end.kind != "Killed":
        return ""
    crashes = facts.crashes_of(failure)
    sent = {str(Killed(each)) for crash in crashes for each in signals_of_end(crash.details.get("how"))}
    return "" if failure.end.text in sent else "the plan sent no such signal"


def of_torch(facts: Facts, failure: Failure) -> str:
    """Say how torch itself may have ended a role; empty if it did not.

    Its threads abort if a peer's message is torn by the peer's end. An RRef whose creation failed corrupts the heap
    when it is dropped. At the common shutdown it has a race: the first rank's process, which holds the store where all
    count themselves, may end before a role has read the last count.
    """
    if not facts.run.is_script and failure.end.kind == "Killed" and _is_crash(facts, failure):
        return "torch itself may have crashed it"
    return "torch's own race at a common shutdown" if is_store_race(facts, failure) else ""


def _is_crash(facts: Facts, failure: Failure) -> bool:
    if failure.end.text == "was killed by SIGABRT" and any(each.time < failure.time for each in facts.of_roles):
        return True
    lost = [event for event in facts.run.timeline.of("info") if event.role == failure.role]
    return failure.end.text != "was killed by SIGKILL" and any(each.details.get("via") == "remote" for each in lost)


def is_store_race(facts: Facts, failure: Failure) -> bool:
    """Whether a role may have failed by torch's own race at a common shutdown, for which all of its world had come."""
    if not any("DistNetworkError" in link.types for link in failure.links):
        return False
    by = failure.time + facts.clocks
    then = {life.role: life for life in facts.lives if life.events and life.events[0].time <= by}
    up = then[failure.role].of("up") if failure.role in then else None
    if up is None or not all(_was_counted(facts, then.get(role)) for role in up.details.get("workers") or then):
        return False
    left = [each for each in _left_together(facts) if each.time <= by]
    own = [event.time + facts.clocks for event in left if event.role == failure.role]
    return bool(own) and any(event.role != failure.role and event.time < own[-1] for event in left)


def _was_counted(facts: Facts, life: Life | None) -> bool:
    """Whether a life may have come to the last count of the common shutdown."""
    if life is None or life.of("shutdown") is None:
        return False
    return life.of("left") is not None or (life.role, life.process) not in facts.killed


def _mistake(facts: Facts, failure: Failure) -> str:
    """Say which mistake in the code a failure shows; empty if it shows none."""
    if failure.role == COMMAND and any(each.time <= failure.time for each in facts.of_roles):
        return ""  # it may have stumbled over what that role did not do
    if failure.role != COMMAND and failure.end.kind == "Exited":
        return ""  # it caught the error, and ended by its own decision
    known = _OF_NO_DATA if _was_corrupted(facts, failure.time + facts.clocks) else MISTAKES
    for link in (each for each in failure.itself if not _is_of_plan(facts, failure, each)):
        for name in link.types:
            if name in known:
                also = "" if name == link.name else f": it is a {name}"
                return f"{link.name} is a mistake in the code{also}"
    return ""


def _is_of_plan(facts: Facts, failure: Failure, link: Link) -> bool:
    """Whether a `Raise` of the plan raised this error: it has its class and text. The error of a callee has its text at
    its caller."""
    text = failure.links[link.of].text if link.way == CALLEE else link.text
    for number in {event.details["fault"] for event in proof.firings(facts.run)}:
        fault = facts.run.plan.faults[number]
        own = "injected" if fault.text is None else fault.text
        if fault.error == link.name and own in text:
            return True
    return False


def _was_corrupted(facts: Facts, time: float) -> bool:
    """Whether a fault had changed data by then."""
    faults = facts.run.plan.faults
    corrupts = [number for number, fault in enumerate(faults) if fault.traits.changes_data]
    events = [each for each in facts.run.timeline.of("effective") if each.details.get("fault") in corrupts]
    return any(event.time <= time for event in events)


def _needed(facts: Facts, expected: Sequence[str]) -> Check:
    """A program fails only if a fault has lost something, or if a wait has reached its limit."""
    run = facts.run
    fired = [run.plan.faults[number] for number, event in facts.effects.items() if event is not None]
    lossy = [fault for fault in fired if not fault.traits.loses_nothing(fault)]
    # The command passes on that a role has failed.
    failed = [each for each in facts.of_roles or facts.failures if not of_torch(facts, each)]
    if facts.success or not fired or lossy or not failed or any(_is(each, expected) for each in facts.failures):
        return Check("needed", "needless failure", True, "no failure without a loss")
    no_time = all(fault.traits.costs_no_time for fault in fired)
    if not no_time and _reached_a_limit(facts):
        return Check("needed", "needless failure", True, "a wait reached its limit")
    messages = run.plan.at("message").values()
    if lost := next((fault for fault in messages if not fault.traits.loses_nothing(fault)), None):
        return Check("needed", "needless failure", None, f"{lost} left no evidence, and may have lost something")
    kinds = ", ".join(dict.fromkeys(fault.kind for fault in fired))
    why = "" if no_time else ", no call ran into its own limit, and no error is a time-out"
    text = f"{'; '.join(map(str, failed))}, although {kinds} loses nothing{why}"
    return Check("needed", "needless failure", False, text)


def _reached_a_limit(facts: Facts) -> bool:
    failed = facts.run.timeline.of("fail", "info")
    chains = [*(each.links for each in facts.failures), *map(links_in, failed)]
    if any(_is_timeout(link) for links in chains for link in links):
        return True
    return any(map(facts.reached_its_limit, failed))


def _is_timeout(link: Link) -> bool:
    return not TIMEOUTS.isdisjoint(link.types) or any(words in link.text for words in _TIMED_OUT)


def _fired(facts: Facts) -> Check:
    """Every fault of the plan fired, as often as it says."""
    holds, text = facts.fired
    return Check("fired", "not fired", holds is not False, text)


def _evidence(facts: Facts) -> Check:
    """Faults of messages, of which torch reports nothing, left evidence in a recorded call."""
    holds, text = facts.fired
    return Check("evidence", UNKNOWN, None if holds is None else True, text if holds is None else "enough")


def _notes(facts: Facts, verdict: str) -> Iterator[str]:
    """Yield the facts that convict nobody."""
    yield from told(facts)
    for event in facts.run.timeline.of("broken"):
        yield from str(event.details.get("stack", "")).splitlines()
    for failure in facts.failures:
        if why := of_torch(facts, failure):
            yield f"{failure}: {why}"
    yield from proof.repeated(facts.run)
    yield from dict.fromkeys(without_effect(facts))
    if facts.every_role_returned:
        yield from holdings.of_timeline(facts.run.timeline)[1]
    if verdict == "unchecked" and facts.run.is_script:
        yield f"no result was compared: {HOW_TO_COMPARE}"
