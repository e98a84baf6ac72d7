"""Runs that are made by hand: two roles, `a` and `b`, on a machine whose clock said 100 when they started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from faults.judge.rules import Check, judge
from faults.ledger import Event, Timeline
from faults.ledger.error_links import CALLEE, Link, to_json
from faults.ledger.record import COMMAND, End, Run
from faults.plan import Plan

DROP = "Drop site=shop:pay role=a nth=1 side=reply"
CRASH = "Crash role=b at=up@b"
DELAY = "Delay site=shop:pay role=a nth=1 side=reply seconds=0.5"

PAY = {"site": "shop:pay", "nth": 1}
# The processes that play a role, or are the command.
PROCESSES = {"a": 1, "b": 2, "c": 3, COMMAND: 9}
RETURNED = End("Returned", "returned", 109.0)

# The classes of errors, with those that they derive from.
BASES = {
    "KeyError": ("KeyError", "LookupError", "Exception"),
    "ModuleNotFoundError": ("ModuleNotFoundError", "ImportError", "Exception"),
    "Lost": ("Lost", "RuntimeError", "Exception"),
}


def event(role: str, name: str, time: float, /, **details: Any) -> Event:
    return Event(role, name, time, details, details.pop("process", PROCESSES.get(role, 0)))


def started(role: str, time: float = 0.0, process: int = 0) -> list[Event]:
    process = process or PROCESSES[role]
    return [event(role, "start", time, pid=process, process=process), event(role, "up", time + 0.1, process=process)]


def calls(count: int, site: str = "shop:pay") -> list[Event]:
    """Calls of ``a`` that return from ``b``: a thousand a second."""
    return [
        event("a", name, (nth + more) / 1000, site=site, nth=nth + 1, to="b")
        for nth in range(count)
        for name, more in (("invoke", 0.0), ("ok", 0.5))
    ]


def chain(name: str, text: str = "no", callee: str = "", cause: str = "") -> list[Link]:
    found = [Link(BASES.get(name, (name, "Exception")), text, f"{name}.{text}")]
    found += [Link(BASES.get(callee, (callee, "Exception")), way=CALLEE)] if callee else []
    return found + ([Link(BASES.get(cause, (cause, "Exception")), "why", way="cause")] if cause else [])


def raised(role: str, name: str, time: float = 3.0, process: int = 0, **of_chain: str) -> Event:
    """The event by which a process tells the error that ended it."""
    links = chain(name, **of_chain)
    return event(role, "raised", time, error=str(links[0]), links=to_json(links), process=process or PROCESSES[role])


def fired(number: int = 0, role: str = "b", time: float = 2.0, **details: Any) -> Event:
    return event(role, "fired", time, **{"fault": number, "caller": "a", **PAY, **details})


def crashed(role: str = "b", time: float = 2.0, **details: Any) -> Event:
    return fired(role=role, time=time, **{"kind": "Crash", "pid": PROCESSES[role], **details})


def command(status: int = 0, time: float = 110.0) -> End:
    kind, text = ("Exited", f"exited with status {status}") if status else ("Returned", "returned")
    return End(kind, text, time, process=PROCESSES[COMMAND])


def _run(plan: str, events: list[Event], ends: Mapping[str, End], different: Mapping[str, Any]) -> Run:
    every = tuple(sorted(events, key=lambda each: each.time))
    timeline = Timeline(every, {}, tuple(dict.fromkeys(each.role for each in every)), 100.0)
    found = Run("shop", Plan.parse(plan), timeline, ends, bound=5.0, seconds=12.0, start=98.0)
    return replace(found, **different)


def world(plan: str = "seed=0", *events: Event, ends: Mapping[str, End] | None = None, **different: Any) -> Run:
    """Roles that have returned, unless ``ends`` or a `raised` among the events tells another end."""
    own = [*started("a"), *started("b"), *(event(role, "shutdown", 8.0) for role in "ab"), *events]
    told = {each.role: each for each in events if each.event == "raised"}
    failed = {
        role: End("Raised", f"raised {each.details['error']}", 100 + each.time, process=each.process)
        for role, each in told.items()
    }
    return _run(plan, own, {"a": RETURNED, "b": RETURNED, **failed, **(ends or {})}, different)


def script(plan: str = "seed=0", *events: Event, status: int = 0, cut: str = "", **different: Any) -> Run:
    """A command that ended with this status. Its roles' processes have exited with 0, but for those in ``cut``, or
    unless the events tell an end."""
    told = {each.role for each in events if each.event in ("raised", "exit")}
    exits = [event(role, "exit", 9.0, status=0) for role in "ab" if role not in told and role not in cut]
    ends = different.pop("ends", {COMMAND: command(status)})
    return _run(plan, [*started("a"), *started("b"), *exits, *events], ends, different)


def verdict(run: Run, *expected: str) -> str:
    return judge(run, expected=expected).verdict


def check(name: str, run: Run) -> Check:
    return next(each for each in judge(run).checks if each.name == name)
