"""Turn a run's timeline into what is drawn: a lane for each role, its lives, its calls, and what happened to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from faults.judge.facts import GONE, RUNNING, Facts, how_all_ended, links_in, player, short
from faults.judge.waiting import call_name, told_waits
from faults.ledger.ledger import Event
from faults.ledger.moments_seen import roles_of
from faults.ledger.record import COMMAND, End
from reference.system.text import one_line

# The most calls and the most marks that a page draws. It keeps first calls that were hurt, failed or have no end, and
# marks that are no steps.
MOST = 5000
# The longest text of a call or mark (characters).
TEXT = 300
# The events that are drawn as a point, with their signs.
MARKS = {
    "step": "•",
    "valid": "✓",
    "fired": "⚡",
    "interrupted": "✗",
    "thread": "✗",
    "logged": "!",
    "refused": "!",
    "failed": "!",
    "broken": "!",
    "shutdown": "▽",
    "up": "△",
}
# Ends of lives, by the sign at the end of a lane.
ENDS = {"Returned": "●", GONE: "○", RUNNING: "…", "Overdue": "…"}
# The end of a life in a run whose ends nobody has recorded, such as that of a test, or of a launcher that died.
NO_END = "has no recorded end"


def drawing(facts: Facts, most: int | None = MOST) -> dict[str, Any]:
    """Return what a page draws, as plain data. Times are seconds of the timeline, rounded to microseconds.

    ``lanes``: roles; ``lives``: [lane, begin, end, sign, text]; ``marks``: [lane, time, sign, text]; ``spans``: pauses
    and hurt networks as [lane, begin, end, text]; ``calls``: [from, to, begin, end, how, text, executing, executed],
    where ``how`` is ok, fail, hurt or open, and a time that is not known is None; of one that is open, ``end`` is when
    its caller or its callee ended; ``left_out``, ``marks_left_out``: how many are more than ``most``; ``first``,
    ``busy``: when the first of all that happened began, and the last was over, but for the lives.
    """
    roles = roles_of(facts.run.timeline)
    # A role may only be called or hit, such as one whose ledger is lost.
    called = [str(event.details.get("to")) for event in facts.run.timeline.of("invoke")]
    lanes = list(dict.fromkeys([*(life.role for life in facts.lives), *roles, *called]))
    number = {name: place for place, name in enumerate(lanes)}
    calls = list(_calls(facts, number))
    kept = sorted(sorted(calls, key=lambda call: (call[4] == "ok", call[2]))[:most], key=lambda call: call[2])
    lives: list[Any] = []
    for life in facts.lives:
        begin, end = life.events[0].time if life.events else 0.0, life.end.time - facts.run.zero
        lives.append([number[life.role], _t(begin), _t(end), *_sign(life.end)])
    for role in [each for each in roles if each not in facts.last]:
        if times := [event.time for event in facts.run.timeline.by(role)]:  # none if all are torn
            lives.append([number[role], _t(times[0]), _t(times[-1]), ENDS[RUNNING], NO_END])
    if facts.command is not None:
        lanes.append(player(COMMAND))
        sign, _ = _sign(facts.command)
        ended = _t(facts.command.time - facts.run.zero)
        lives.append([len(lanes) - 1, 0.0, ended, sign, _text(end_of_command(facts.command))])
    for call in kept:
        if call[4] == "open":
            ends = [end for lane, _, end, *_ in lives if lane in call[:2] and end >= call[2]]
            call[3] = min(ends, default=None)
    every, spans = list(_marks(facts, number)), list(_spans(facts, number))
    marks = sorted(sorted(every, key=lambda mark: (mark[2] == MARKS["step"], mark[1]))[:most], key=lambda mark: mark[1])
    seen: list[float] = [each for call in kept for each in call[2:4] if each is not None]
    seen += [mark[1] for mark in marks] + [span[1] for span in spans]
    first, busy = min(seen, default=0.0), max(seen, default=0.0)
    seen += [each for life in lives for each in life[1:3]]
    return {
        "lanes": [_text(name) for name in lanes],
        "lives": lives,
        "calls": kept,
        "marks": marks,
        "spans": spans,
        "left_out": len(calls) - len(kept),
        "marks_left_out": len(every) - len(marks),
        "begin": min(seen, default=0.0),
        "first": first,
        "busy": busy,
        "end": max(seen, default=1.0),
    }


def end_of_command(end: End) -> str:
    """Say how the command ended; if it returned, with which status."""
    return f"{end.text}{', with status 0' * end.returned}"


def _sign(end: Any) -> tuple[str, str]:
    return ENDS.get(end.kind, "✗"), _text(end.text)


def _t(seconds: float) -> float:
    return round(seconds, 6)


def _text(text: object) -> str:
    return one_line(" ".join(str(text).split()), TEXT)


def _calls(facts: Facts, number: Mapping[str, int]) -> Iterator[list[Any]]:
    """Yield the program's own calls. Those that torch makes itself are left out."""
    hurt = {id(each) for hits, _ in facts.messages.values() for each in hits}
    begun: dict[tuple[object, ...], list[Any]] = {}
    latest: dict[tuple[object, ...], list[Any]] = {}  # by what the callee knows of a call, in any life of its caller
    at_callee = {"executing": 6, "executed": 7}
    events = facts.run.timeline.of("invoke", "ok", "fail", "info", *at_callee)
    for event in sorted(events, key=lambda each: each.time + facts.clocks * (each.event in at_callee)):
        if event.event in at_callee:
            if (call := latest.get((event.details.get("caller"), *event.call))) is not None:
                call[at_callee[event.event]] = _t(event.time)
            continue
        if event.is_internal or event.role not in number:
            continue
        if event.event == "invoke":
            to = number[str(event.details.get("to"))]
            faults = event.details.get("faults") or ()
            more = "".join(f", hit by fault {each + 1}" for each in faults)
            name = _text(f"{call_name(event)}{more}")
            begun[event.made] = [number[event.role], to, _t(event.time), None, "open", name, None, None]
            latest[event.role, *event.call] = begun[event.made]
            yield begun[event.made]
        elif (call := begun.pop(event.made, None)) is not None:
            call[3] = _t(event.time)
            hit = "hit by" in call[5] or id(event) in hurt
            call[4] = "fail" if event.event != "ok" else "hurt" if hit else "ok"
            call[5] = _text(f"{call[5]}{_error(event)}")


def _error(event: Event) -> str:
    links = links_in(event)
    told = str(links[0]) if links else str(event.details.get("error", ""))
    return f": {told}" if event.event != "ok" else ""


def _marks(facts: Facts, number: Mapping[str, int]) -> Iterator[list[Any]]:
    for event in facts.run.timeline.of(*MARKS):
        lane = _lane(event, number)
        if lane is not None:
            yield [lane, _t(event.time), MARKS[event.event], _text(_told(facts, event))]


def _lane(event: Event, number: Mapping[str, int]) -> int | None:
    """The lane on which an event is drawn: of a fault that a role fires at another one, that one's."""
    hit = event.details.get("hurt") or event.details.get("role") if event.event == "fired" else None
    return number.get(str(hit), number.get(event.role))


def _told(facts: Facts, event: Event) -> str:
    details = event.details
    if event.event == "fired" and details.get("fault") in range(len(facts.run.plan.faults)):
        return f"fault {details['fault'] + 1} fired: {facts.run.plan.faults[details['fault']]}"
    if event.event == "step":
        return f"step {details.get('number')}"
    if event.event == "valid":
        return f"the checkpoint of step {details.get('number')} is valid"
    if event.event == "shutdown":
        return "is in rpc.shutdown, and serves until all are"
    told = details.get("error") or details.get("text") or details.get("why") or ""
    return f"{event.event}{': ' * bool(told)}{short(str(told), TEXT)}"


def _spans(facts: Facts, number: Mapping[str, int]) -> Iterator[list[Any]]:
    """Yield the times in which a process was stopped, or a network was hurt: to the end if nothing ended them."""
    last = max((event.time for event in facts.run.timeline.events), default=0.0)
    over = facts.run.timeline.of("resumed", "died", "healed")
    for fired in facts.run.timeline.of("fired"):
        fault, kind, lane = fired.details.get("fault"), fired.details.get("kind"), _lane(fired, number)
        if lane is not None and kind in ("Pause", "Partition", "Lossy", "Reset", "Slow"):
            ends = [each.time for each in over if each.details.get("fault") == fault and each.time >= fired.time]
            yield [lane, _t(fired.time), _t(min(ends, default=last)), f"{kind} (fault {int(fault or 0) + 1})"]


Happened = list[tuple[float, str, str]]


def happened(drawn: Mapping[str, Any]) -> Happened:
    """Return what changed what came next, by time, each with its text and fail, hurt or nothing: faults, calls that
    were hurt or failed, errors, shutdowns, ends of lives. What a fault does comes after it."""
    lanes = drawn["lanes"]
    how_bad = {"⚡": "hurt", "▽": "", "✗": "fail", "!": "fail"}
    marks = [mark for mark in drawn["marks"] if mark[2] in how_bad]
    found = [(time, f"{lanes[lane]}: {text}", how_bad[sign]) for lane, time, sign, text in marks]
    for caller, callee, begin, end, how, text, *_ in drawn["calls"]:
        if how in ("fail", "hurt"):
            name, _, error = text.partition(": ")
            told = f"failed: {error}" if how == "fail" else "returned"
            found.append((begin if end is None else end, f"{lanes[caller]} → {lanes[callee]}: {name} {told}", how))
    for lane, _, end, sign, text in (life for life in drawn["lives"] if life[4] != NO_END):
        found.append((end, f"{lanes[lane]} {text}", "" if sign == "●" else "fail"))
    return sorted(found, key=lambda each: each[0])


def shortened(events: Happened, most: int) -> Happened:
    """Leave out the middle of a long list, and say so."""
    if len(events) <= most:
        return events
    first, last = events[: most // 2], events[len(events) - most + most // 2 :]
    return [*first, (last[0][0], f"{len(events) - most} more events before this", "dim"), *last]


# The most events of a run that reports tell.
EVENTS = 60


def told(facts: Facts) -> dict[str, Any]:
    """Return what a report for machines tells of any run: its seconds, ends and waits, and what happened."""
    run = facts.run
    events = shortened(happened(drawing(facts, most=None)), EVENTS)
    return {
        "seconds": round(run.seconds, 3),
        "ends": {one_line(role): one_line(text) for role, text in how_all_ended(facts).items()},
        "waits": {one_line(name): one_line(place) for name, place in run.waits.items()},
        "waiting": [one_line(each) for each in told_waits(facts)],
        "events": [{"time": round(time, 6), "text": text} for time, text, _ in events],
    }
