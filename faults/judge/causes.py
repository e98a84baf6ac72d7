"""Show how each role ended that did not return: when, by which chain of errors, and where that meets a fault.

`without_effect` tells which faults fired and changed nothing that the ledgers can show.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from faults.judge.facts import RUNNING, Facts, Failure, Life, links_in, short
from faults.judge.proof import firings
from faults.ledger.error_links import CALLEE, CONTEXT
from faults.ledger.ledger import Event
from faults.ledger.record import COMMAND
from faults.plan.kinds import Seen

# How many links of a chain are shown.
_SHOWN = 6
# How many calls are named that failed alike.
_CALLS = 3
# What pools of processes give to an error as its cause: a traceback's text.
_TRACEBACKS = ("_RemoteTraceback", "RemoteTraceback")


def told(facts: Facts) -> Iterator[str]:
    """Yield a line for each role's life that did not return, the command's end, and each error that ended a thread."""
    yield from told_ends(facts, facts.lives)
    for event in facts.run.timeline.of("thread"):
        thread, error = event.details.get("name"), short(str(event.details.get("error")))
        yield f"an error ended only the thread {thread} of {event.role}, {event.time:.1f} s after the start: {error}"


def told_ends(facts: Facts, lives: Collection[Life]) -> Iterator[str]:
    """Yield a line for each of these lives that did not return, and the command's end."""
    failures = {(each.role, each.life): each for each in facts.failures}
    for life in (each for each in lives if not each.end.returned):
        why = _why(facts, life, failures.get((life.role, life.number)))
        yield f"{facts.name_of(life)} {short(life.end.text)}, {_when(facts, life)}{why}"
    command = failures.get((COMMAND, 1))
    if command is not None and command.links:
        yield f"the command {command.end.text}, by {short(str(command.links[0]))} {_chain(facts, command)}"
    elif command is not None:
        yield f"the command {short(command.end.text)}"


def _when(facts: Facts, life: Life) -> str:
    run = facts.run
    after = f"{max(0.0, life.end.time - run.zero):.1f} s after the start"
    command = facts.command
    if command is None or life.end.kind == RUNNING:
        return after
    before = command.time - life.end.time
    return f"{after}, {abs(before):.1f} s {'before' if before >= 0 else 'after'} the command's end"


def _why(facts: Facts, life: Life, failure: Failure | None) -> str:
    """Show the chain of the error that ended a life, or the last error that it logged, with that one's chain."""
    told = had_logged(life, failure)
    if failure is None or not failure.links:
        return told
    first = f"{told}: {short(str(failure.links[0]), 80)}" if told else ""  # an error that was raised is told already
    return f"{first} {_chain(facts, failure)}"


def had_logged(life: Life, failure: Failure | None) -> str:
    """Say which error a life had logged last, unless it raised one; of a failure with a chain, the one that has it."""
    if life.end.kind == "Raised":
        return ""
    told = [event for event in life.events if event.event == "logged"]
    if failure is not None and failure.links:
        told = [event for event in told if links_in(event)] or told
    return f"; it had logged: {short(str(told[-1].details.get('text', '')))}" if told else ""


def _chain(facts: Facts, failure: Failure) -> str:
    """Write a failure's chain, and the fault that it meets."""
    links = [link for link in failure.links[1:] if link.way != CALLEE and link.name not in _TRACEBACKS]
    causes = {link.of for link in links if link.way != CONTEXT}
    # What was being handled matters only where no cause is stated.
    links = [link for link in links if link.way != CONTEXT or link.of not in causes]
    shown = "".join(f" <- {short(str(link), 80)}" for link in links[:_SHOWN])
    return f"{shown} ({met(facts, failure) or 'meets no fault'})".lstrip()


def met(facts: Facts, failure: Failure) -> str:
    """Say in which call a chain is met, and which fault hit that call or ended its callee; empty if it meets none.

    Calls that failed alike, such as by the same time-out, cannot be told from each other.
    """
    found = [_traced(facts, event) for event in _of_chain(facts, failure)[-_CALLS:]]
    if not found and failure.role == COMMAND and facts.of_roles:  # a launcher passes on what ended a role
        return f"after {' and '.join(dict.fromkeys(each.role for each in facts.of_roles))} had failed"
    return f"met in {'; or in '.join(found)}" if found else ""


def _traced(facts: Facts, event: Event) -> str:
    """Follow a call that failed to the fault behind it. Its callee may have failed by a call of its own, or may still
    have waited for one when the first caller gave up."""
    told, last, seen = _named(event), event, {event.made}
    gave_up = event if facts.reached_its_limit(event) else None
    while not (fate := _fate(facts, last)):
        if (inner := _failed_within(facts, last)) is not None:
            way, gave_up = "by", inner if facts.reached_its_limit(inner) else None
        elif gave_up is not None:
            inner, way = _open_within(facts, last, gave_up.time), "which waited for"
        if inner is None or inner.made in seen:
            return f"{_named(event)}, which meets no fault"
        told, last = f"{told}, {way} {_named(inner)}", inner
        seen.add(inner.made)
    return f"{told}, {fate}"


def _failed_within(facts: Facts, call: Event) -> Event | None:
    """Return the last call of a failed call's callee by whose error that one failed."""
    said = " ".join(link.text for link in links_in(call))
    own = [each for each in facts.failed if each[0].role == _callee(call) and each[0].time < call.time]
    within = [each for each in own if facts.began(each[0]) >= facts.began(call) - facts.clocks]
    found = [each for each, links in within if any(link.text and link.text in said for link in links)]
    return found[-1] if found else None


def _open_within(facts: Facts, call: Event, time: float) -> Event | None:
    """Return the end of the call that a call's callee had begun within it, and that was open at this time; None if
    there are none or several, or if the callee executed another call, too: nobody knows which of them waits."""
    callee, since = _callee(call), facts.began(call) - facts.clocks
    calls = [each for each in facts.calls_of.get(callee, ()) if since <= each[0].time < time]
    ends = [end or replace(begun, time=time) for begun, end in calls]
    found = [each for each in ends if each.time + facts.clocks >= time and each.made != call.made]
    return found[0] if len(found) == 1 and facts.open_to(callee, facts.began(found[0])) == 1 else None


def _named(call: Event) -> str:
    return f"call {call.details.get('site')}#{call.details.get('nth')} of {call.role} to {_callee(call)}"


def _of_chain(facts: Facts, failure: Failure) -> list[Event]:
    """Return the calls by whose error somebody may have failed: those with the same object, else those of its own with
    the same text (C++ makes another object), else anybody's."""
    same, alike = _with(facts, failure, "identity"), _with(facts, failure, "text")
    return same or [each for each in alike if each.process == failure.end.process] or alike


def _with(facts: Facts, failure: Failure, name: str) -> list[Event]:
    """Return the calls that failed up to a failure by an error with a link of its identity, or text (``name``)."""
    values = {getattr(link, name) for link in failure.links} - {""}
    keys = {(name, value) for value in values} & facts.failed_by.keys()
    if not keys and name == "text":  # `then` of a future puts words of its own before the text
        texts = {text for of, text in facts.failed_by if of == name and text}
        keys = {(name, text) for text in texts if any(value.endswith(text) for value in values)}
    places = sorted({place for key in keys for place in facts.failed_by[key]})
    return [call for call, _ in map(facts.failed.__getitem__, places) if call.time <= failure.time]


def _callee(event: Event) -> str:
    return str(event.details.get("to"))


def _fate(facts: Facts, ended: Event) -> str:
    """Say which faults hit a call, by its beginning, ended its callee, or were on its way; empty if none did."""
    numbers = [number for number, (hit, _) in facts.messages.items() if ended in hit]
    numbers += facts.begun.get(ended.made, ended).details.get("faults", ())
    if numbers:
        return f"which {', and '.join(f'fault {each + 1} hit: {facts.run.plan.faults[each]}' for each in numbers)}"
    callee = _callee(ended)
    processes = {(life.role, life.process) for life in facts.lives if life.role == callee}
    fired = [event for process, events in facts.killed.items() if process in processes for event in events]
    crashes = [event for event in fired if event.time <= ended.time]
    if crashes:
        return f"whose callee fault {crashes[0].details['fault'] + 1} ended"
    for each in firings(facts.run):
        if _is_way(facts, each, ended):
            return f"on whose way was fault {each.details['fault'] + 1}"
        if _has_stopped(facts, each, ended):
            return f"whose callee fault {each.details['fault'] + 1} stopped"
    return ""


def _is_way(facts: Facts, fired: Event, ended: Event) -> bool:
    """Whether a fault that has fired hurts the network between the caller and the callee of a call."""
    fault, ends = facts.run.plan.faults[fired.details["fault"]], {ended.role, _callee(ended)}
    hurt = {fault.role, fault.peer} - {None}
    return fault.place == "network" and fired.time <= ended.time and hurt <= ends


def _has_stopped(facts: Facts, fired: Event, ended: Event) -> bool:
    """Whether a fault that has fired stopped the callee of a call during that call."""
    fault = facts.run.plan.faults[fired.details["fault"]]
    lasted = fired.time <= ended.time and facts.began(ended) <= fired.time + fault.traits.lasts(fault)
    return fault.traits.stops_process and lasted and fired.details.get("role", fired.role) == _callee(ended)


def without_effect(facts: Facts) -> Iterator[str]:
    """Say of each fault that fired, but had no effect as far as the ledgers can show one, what was seen instead."""
    timeline = facts.run.timeline
    ways = {"ok": "value", "fail": "failed", "info": "failed"}
    ends = {each.made: ways[each.event] for each in timeline.of(*ways)}
    # For `rpc.remote` an "ok" says only that the call arrived.
    ends |= {each.made: "arrived" for each in timeline.of("ok") if each.details.get("via") == "remote"}
    # How the calls ended that a fault has hit, by the fault and what its callee knows of them, in any life of a caller.
    calls: dict[tuple[object, ...], set[str]] = {}
    for each in timeline.of("invoke"):
        for number in each.details.get("faults", ()):
            for known in ((number, each.role), (number, each.role, *each.call)):
                calls.setdefault(known, set()).add(ends.get(each.made, ""))
    # By the call; events of a fault at another place have none.
    worked = {(each.details.get("fault"), each.details.get("caller"), *each.call) for each in timeline.of("effective")}
    unreturned = {life.process for life in facts.lives if not life.end.returned}
    for fired in firings(facts.run):
        number, caller = fired.details["fault"], fired.details.get("caller")
        fault = facts.run.plan.faults[number]
        # A fault may name another of the call's sites than its caller's ledger does.
        hit = calls.get((number, caller, *fired.call)) or calls.get((number, caller), set())
        seen = Seen((number, caller, *fired.call) in worked, hit, fired.details.get("pid") in unreturned)
        if not fault.traits.had_effect(fault, seen):
            yield f"{fault} fired, but {fault.traits.seen_instead(fired.details)}"
