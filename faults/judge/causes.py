"""Show how each role ended that did not return: when, by which chain of errors, and where that meets a fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faults.judge.facts import RUNNING, Facts, Failure, Life, links_in, short
from faults.judge.proof import firings
from faults.ledger.error_links import CALLEE, CONTEXT, Link
from faults.ledger.ledger import Event
from faults.ledger.record import COMMAND
from faults.plan.site import INTERNAL

# How many links of a chain are shown.
_SHOWN = 6


def told(facts: Facts) -> Iterator[str]:
    """Yield a line for each role's life that did not return, and the command's end."""
    failures = {(each.role, each.life): each for each in facts.failures}
    for life in (each for each in facts.lives if not each.end.returned):
        why = _why(facts, life, failures.get((life.role, life.number)))
        yield f"{_name(facts, life)} {short(life.end.text)}, {_when(facts, life)}{why}"
    command = failures.get((COMMAND, 1))
    if command is not None and command.links:
        yield f"the command {command.end.text}, by {short(str(command.links[0]))} {_chain(facts, command)}"
    elif command is not None:
        yield f"the command {short(command.end.text)}"


def _name(facts: Facts, life: Life) -> str:
    several = sum(each.role == life.role for each in facts.lives) > 1
    return f"{life.role} (life {life.number})" if several else life.role


def _when(facts: Facts, life: Life) -> str:
    run = facts.run
    after = f"{max(0.0, life.end.time - run.start):.1f} s after the start"
    command = facts.command
    if command is None or life.end.kind == RUNNING:
        return after
    before = command.time - life.end.time
    return f"{after}, {abs(before):.1f} s {'before' if before >= 0 else 'after'} the command's end"


def _why(facts: Facts, life: Life, failure: Failure | None) -> str:
    """Show the chain of the error that ended a life, or the last error that it logged, with that one's chain."""
    logged = life.of("logged")
    if failure is not None and failure.end.kind == "Raised":
        return f" {_chain(facts, failure)}" if failure.links else ""
    if logged is None:
        return ""
    told = f"; it had logged: {short(str(logged.details.get('text', '')))}"
    if failure is None or not failure.links:
        return told
    return f"{told}: {short(str(failure.links[0]), 80)} {_chain(facts, failure)}"


def _chain(facts: Facts, failure: Failure) -> str:
    """Write a failure's chain, and the fault that it meets."""
    links = [link for link in failure.links[1:] if link.way != CALLEE]
    causes = {link.of for link in links if link.way != CONTEXT}
    # What was being handled matters only where no cause is stated.
    links = [link for link in links if link.way != CONTEXT or link.of not in causes]
    shown = "".join(f" <- {short(str(link), 80)}" for link in links[:_SHOWN])
    return f"{shown} ({_met(facts, failure)})".lstrip()


def _met(facts: Facts, failure: Failure) -> str:
    """Say which fault a chain meets: one that raised an error of it, or that hit the call which failed by it."""
    for link in failure.links:
        if raised := _raised_by(facts, link):
            return f"fault {raised} raised it"
    for event in _failed_calls(facts, failure.links):
        call = f"{event.details.get('site')}#{event.details.get('nth')} of {event.role} to {event.details.get('to')}"
        hit = _hit(facts, event)
        if hit is not None:
            return f"met in call {call}, which fault {hit + 1} hit: {facts.run.plan.faults[hit]}"
        crash = _crash_of(facts, str(event.details.get("to")))
        if crash is not None and crash.time <= event.time:
            return f"met in call {call}, whose callee fault {crash.details['fault'] + 1} ended"
        return f"met in call {call}, which meets no fault"
    return "meets no fault"


def _raised_by(facts: Facts, link: Link) -> int | None:
    for event in firings(facts.run):
        fault = facts.run.plan.faults[event.details["fault"]]
        same = (fault.error or "FaultError") in link.types and (fault.text or "injected") in link.text
        if fault.kind == "Raise" and fault.side != "flight" and same:
            return int(event.details["fault"]) + 1
    return None


def _crash_of(facts: Facts, role: str) -> Event | None:
    """Return the first firing by which the plan ended a process of this role."""
    processes = {life.process for life in facts.lives if life.role == role}
    return next((event for process, event in facts.killed.items() if process in processes), None)


def _failed_calls(facts: Facts, links: Sequence[Link]) -> list[Event]:
    """Return the calls that failed by an error of a chain: the same object, or one of the same class and text."""
    identities = {link.identity for link in links} - {""}
    same = {(link.name, link.text) for link in links}
    found = []
    for event in facts.run.timeline.of("fail", "info"):
        own = links_in(event)
        if str(event.details.get("site")).startswith(INTERNAL):
            continue
        if any(link.identity in identities or (link.name, link.text) in same for link in own):
            found.append(event)
    return found


def _hit(facts: Facts, ended: Event) -> int | None:
    """Return the fault that hit a call, by its beginning."""
    for event in facts.run.timeline.of("invoke"):
        if event.role == ended.role and event.process == ended.process and event.call == ended.call:
            faults = event.details.get("faults") or [None]
            return None if faults[0] is None else int(faults[0])
    return None
