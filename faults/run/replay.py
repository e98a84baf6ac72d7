"""Make a plan from the ledgers of a run: the faults that fired, each at its exact call, in the recorded order of calls.

The order is known if the roles have recorded when each call executed (``--order``). It is kept for calls of one site
that execute on one role, and that did not execute at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from faults.judge.proof import firings
from faults.ledger.ledger import Event, Timeline
from faults.ledger.record import Run
from faults.plan.plan import Fault, Plan
from faults.run.call_threads import with_few_threads

# The most calls of one site whose order is kept, because each of them carries the whole order.
MOST = 1000


@dataclass(frozen=True)
class Replay:
    """The plan of a replay. ``notes``: what it does not repeat, one line each."""

    plan: Plan
    notes: list[str] = field(default_factory=list)


def replay_of(run: Run, seconds: float) -> Replay:
    """Return the plan that repeats this run. ``seconds``: how long a call waits for its turn."""
    faults, notes = list(_exact(run)), [*_lost(run)]
    if not run.timeline.of("ordering"):
        notes.append("the order of calls: the run did not record it (wanted --order)")
    elif _restarted(run.timeline):
        notes.append(f"the order of calls: {_restarted(run.timeline)} started RPC twice, and counted its calls anew")
    else:
        orders = list(_orders(run.timeline, seconds))
        faults += [each for each in orders if isinstance(each, Fault) and each not in faults]
        notes += [each for each in orders if isinstance(each, str)]
    return Replay(Plan(tuple(faults), run.plan.seed), notes)


def _exact(run: Run) -> Iterator[Fault]:
    """Yield the faults that fired, those of calls at exactly the calls that they hit."""
    fired: dict[int, list[Event]] = {}
    for event in firings(run):
        fired.setdefault(event.details["fault"], []).append(event)
    for number, fault in enumerate(run.plan.faults):
        if fault.place == "message" or (number in fired and (fault.place != "call" or fault.kind == "Order")):
            yield fault
        elif number in fired:
            yield from dict.fromkeys(_at_call(fault, event.details) for event in fired[number])


def _at_call(fault: Fault, details: Mapping[str, Any]) -> Fault:
    exact = {"role": details["caller"], "nth": details["nth"]}
    return replace(fault, every=False, chance_percent=None, **exact)


def _lost(run: Run) -> Iterator[str]:
    fired = {event.details["fault"] for event in firings(run)}
    for number, fault in enumerate(run.plan.faults):
        if number not in fired and fault.place != "message":
            yield f"{fault}: it did not fire"


def _restarted(timeline: Timeline) -> str:
    """Return a role that has started RPC several times; empty if there is none."""
    starts = Counter(event.role for event in timeline.of("start"))
    return next((role for role, count in starts.items() if count > 1), "")


@dataclass(frozen=True)
class _Execution:
    """The execution of one call. ``call``: ``ROLE#N``; ``begun``, ``ended``: on the timeline, in seconds."""

    call: str
    begun: float
    ended: float


def _orders(timeline: Timeline, seconds: float) -> Iterator[Fault | str]:
    """Yield an `Order` for each site and role on which several callers' calls executed, and what it leaves out."""
    few = with_few_threads(timeline)
    for (callee, site), executions in _executions(timeline).items():
        if callee in few:
            yield f"the order of calls of {site} at {callee}: {few[callee]}"
            continue
        alone = _alone(executions)
        if len(alone) < len(executions):
            yield f"the order of {len(executions) - len(alone)} calls of {site} at {callee}: others executed meanwhile"
        if len(alone) > MOST:
            yield f"the order of {len(alone) - MOST} calls of {site} at {callee}: wanted at most {MOST}"
        calls = tuple(each.call for each in alone[:MOST])
        if len({each.partition("#")[0] for each in calls}) > 1:
            yield Fault(kind="Order", site=site, roles=calls, seconds=seconds)


def _executions(timeline: Timeline) -> dict[tuple[str, str], list[_Execution]]:
    """Return the executions of each role and site, by their beginnings."""
    found: dict[tuple[str, str], dict[str, tuple[float, float]]] = {}
    for event in timeline.of("executing", "executed"):
        call = f"{event.details['caller']}#{event.details['nth']}"
        calls = found.setdefault((event.role, str(event.details["site"])), {})
        begun, _ = calls.get(call, (event.time, 0.0))
        calls[call] = (begun, event.time if event.event == "executed" else float("inf"))
    return {place: [_Execution(call, *times) for call, times in calls.items()] for place, calls in found.items()}


def _alone(executions: Sequence[_Execution]) -> list[_Execution]:
    """Return those that no other one overlaps. They are in the order in which they began."""
    found, latest = [], float("-inf")
    for number, each in enumerate(executions):
        following = executions[number + 1].begun if number + 1 < len(executions) else float("inf")
        if latest <= each.begun and each.ended <= following:
            found.append(each)
        latest = max(latest, each.ended)
    return found
