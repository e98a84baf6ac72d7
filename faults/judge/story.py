"""Tell the story of a run from its facts: the verdict as a sentence, what became of each fault, how each role ended."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from faults.judge.facts import Facts, Failure, player, short
from faults.judge.hints import often
from faults.judge.rules import DEFECTS, LOUD, UNKNOWN, Judgement, is_store_race, lateness
from faults.judge.waiting import call_name, told_waits
from faults.ledger.ledger import Event
from faults.plan.places import Moment
from faults.plan.plan import Fault
from reference.system.text import one_line

# What each verdict means: the end of the story. Of one that is no pass, the rule that does not hold follows.
MEANS = {
    **dict.fromkeys(DEFECTS, "This is a defect"),
    "not fired": "The run shows nothing of what its plan wanted to know",
    UNKNOWN: "What the folder holds is not enough for a verdict",
    "equal": "The run passed: it did its work, with the right result",
    "recovered": "The run passed: a role was started again, and the result is right",
    "unchecked": "The run passed: it did its work. Nobody said what is right",
    LOUD: "The run passed: it could not do its work, and said so in time",
}
# What each rule asks.
ASKS = {
    "record": "Is the run's record whole?",
    "ends": "Did everything end in time?",
    "left": "Is nothing left behind?",
    "result": "Is the result right, as far as somebody said what is?",
    "errors": "Is no error the program's own mistake?",
    "needed": "Did it fail only because something was lost?",
    "fired": "Did each fault of the plan fire?",
    "evidence": "Is there evidence enough?",
}
# The longest reason in the sentence (characters).
_REASON = 300


@dataclass(frozen=True)
class FaultStory:
    """What became of one fault of the plan. ``times``: of what happened, each with what it was."""

    text: str
    times: Sequence[tuple[float, str]]
    verdict: str


def sentence(facts: Facts, judgement: Judgement) -> str:
    """Say in a few words what was done to the run, what came of it, and what the verdict means."""
    why = next((check.text for check in judgement.complaints), "")
    meaning = f"{MEANS[judgement.verdict]}{f': {one_line(why, _REASON)}' * bool(why)}."
    return " ".join([*_happened(facts), meaning])


def _happened(facts: Facts) -> Iterator[str]:
    """Yield sentences: the faults that fired and the failures, by time, and when all had ended."""
    run = facts.run
    effects = {number: event for number, event in facts.effects.items() if number in facts.has_fired}
    hits = sorted((event.time, number) for number, event in effects.items() if event is not None)
    failures = facts.of_roles or facts.failures
    noticed = [each for each in failures if not facts.crashes_of(each)]
    told = []
    for time, number in hits[:3]:
        more = f"{len(hits) - 3} more {'fault' if len(hits) == 4 else 'faults'} fired"
        again = f", and {more}" if len(hits) > 3 and number == hits[2][1] else ""
        told.append((time, f"{_capital(did(facts, number))} {time:.2f} s after the start{again}."))
    if noticed:
        first, *others = noticed
        names = [player(each.role) for each in others]
        then = f"; then {_listed(names)} failed" if names else ""
        later = _later(facts, first.time, [time for time, _ in hits[:3]])
        told.append((first.time, f"{_capital(player(first.role))} {_end(first)}{later}{then}."))
    yield from (text for _, text in sorted(told, key=lambda each: each[0]))
    last = max((life.end.time for life in facts.lives), default=0.0) - run.zero
    if waits := list(told_waits(facts)):
        more = f"; and {len(waits) - 3} more {'waits' if len(waits) == 4 else 'wait'}" * (len(waits) > 3)
        yield f"{_capital('; '.join(waits[:3]))}{more}."
    elif facts.every_role_returned and facts.lives:
        yield f"All roles returned, the last one {last:.1f} s after the start."
    elif facts.success and (lives := max((life.number for life in facts.lives), default=1)) > 1:
        yield f"Roles were started again {often(lives - 1)}, and the last one returned {last:.1f} s after the start."
    elif run.complete and hits and noticed:
        yield from _in_time(facts, [each for each in failures if not is_store_race(facts, each)])


def _listed(names: Sequence[str]) -> str:
    shown = [*names[:4], *([f"{len(names) - 4} more"] if len(names) > 4 else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _end(failure: Failure) -> str:
    """How a role ended, with the class of its error and not its text."""
    links = failure.links
    return f"raised {links[0].name}" if failure.end.kind == "Raised" and links else short(failure.end.text)


def _later(facts: Facts, time: float, told: Sequence[float]) -> str:
    """Say how long after a fault something happened. ``told``: the times that the reader knows."""
    before = [each for each in facts.effect_times if each <= time]
    if not told or not before:
        return f" {max(0.0, time):.2f} s after the start"
    since = "later" if before[-1] in told else "after the last fault before that"
    return f", {time - before[-1]:.2f} s {since}"


def _in_time(facts: Facts, failures: Sequence[Failure]) -> Iterator[str]:
    """Say how soon those ended who failed: of the one that was nearest to what is allowed, or came too late."""
    found = [(each, *lateness(facts, each)) for each in failures]
    if bounded := [each for each in found if each[3] < math.inf]:
        failure, late, what, most, _ = max(bounded, key=lambda each: each[1] - each[3])
        alike = all(each.time >= facts.effect_times[-1] >= each.began for each in failures)
        who = "All who failed" if alike else _capital(player(failure.role))
        since = what.removesuffix(" before that") if alike else what
        yield f"{who} had ended {late:.1f} s after {since}; {most:.1f} s are allowed."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] if text.split(" ", 1)[0] in _WORDS else text


# The first words of sentences that are no role's name.
_WORDS = {"the", "calls", "connections", "packets", "messages", "nobody"}


def did(facts: Facts, number: int) -> str:
    """Say what the first firing of a fault has done."""
    fault, event = facts.run.plan.faults[number], facts.effects[number]
    assert event is not None, number
    details = event.details
    caller, callee = str(details.get("caller", event.role)), event.role
    if event.event == "invoke":  # an Order's first call, at its caller
        caller, callee = event.role, str(details.get("to"))
    return fault.traits.did.format(
        call=f"{call_name(event)} of {caller}",
        function=call_name(event).partition("#")[0],
        callee=callee,
        side=details.get("side") or fault.side or fault.when or "call",
        role=fault.role or "all roles",
        peer=fault.peer or "all others",
        message=fault.message,
    )


def fault_stories(facts: Facts) -> list[FaultStory]:
    """Return what became of each fault, in the order of the plan."""
    return [_fault_story(facts, number, fault) for number, fault in enumerate(facts.run.plan.faults)]


_TOLD = ("planned", "fired", "effective", "failed", "healed", "resumed", "died")


def _fault_story(facts: Facts, number: int, fault: Fault) -> FaultStory:
    events = [each for each in facts.run.timeline.of(*_TOLD) if each.details.get("fault") == number]
    times = [(each.time, f"{each.event} by {each.role}{_at(each)}") for each in events]
    fired, seen = number in facts.has_fired, facts.effects[number]
    if fired and seen is not None and not any(each.event == "fired" for each in events):
        times.append((seen.time, f"fired: {call_name(seen)} of {seen.role} shows it"))
    verdict = "effective" if any(each.event == "effective" for each in events) else "fired" if fired else "not fired"
    return FaultStory(str(fault), sorted(times), verdict)


def _at(event: Event) -> str:
    if "site" in event.details:
        return f" at {call_name(event)} of {event.details.get('caller', event.role)}"
    moment = event.details.get("at")
    return f" at {short_moment(str(moment))}" if moment else ""


def short_moment(text: str) -> str:
    """Name a moment without the module of its call."""
    moment = Moment.parse(text)
    return text if not moment.site else f"{moment.site.rpartition(':')[2]}#{moment.number}@{moment.role}"
