"""Tell from the ledgers whether a fault that fired had an effect. Read all calls once, not once per fault."""

from __future__ import annotations

from collections.abc import Iterable

from faults.judge.facts import Facts
from faults.judge.proof import firings
from faults.ledger.ledger import Event
from faults.plan.plan import Fault

# A call: its caller's process, its caller, its site, and its number among this caller's calls of the site.
_Call = tuple[object, ...]


def without_effect(facts: Facts) -> list[str]:
    """Say of each fault that fired, but had no effect as far as the ledgers can show one, what was seen instead."""
    effects, faults = _Effects(facts), facts.run.plan.faults
    without = [(faults[event.details["fault"]], event) for event in firings(facts.run) if not effects.has(event)]
    return [f"{fault} fired, but {_seen_instead(fault, event)}" for fault, event in without]


def _seen_instead(fault: Fault, event: Event) -> str:
    if fault.kind == "Corrupt":
        return f"nothing was changed: the tensor has these bits already ({event.details.get('old')})"
    if fault.place == "call" and fault.kind in ("Drop", "Raise", "Crash"):
        return f"{event.details['caller']} got an answer nevertheless"
    return "hit no packet" if fault.place == "network" else "no role saw an effect"


class _Effects:
    """The effects of one run's faults."""

    def __init__(self, facts: Facts) -> None:
        self._facts, timeline = facts, facts.run.timeline
        answers = timeline.of("ok")
        self._answered = _calls(answers)
        # For `rpc.remote` an "ok" says only that the call arrived: an exception is raised when the value is fetched.
        self._valued = _calls(each for each in answers if each.details.get("via") != "remote")
        self._ended = _calls(timeline.of("fail", "info"))
        # The calls that a fault has hit, by the fault and what its callee knows of them: one in each life of a caller.
        self._hit: dict[tuple[object, ...], set[_Call]] = {}
        for each in timeline.of("invoke"):
            for number in each.details.get("faults", ()):
                self._hit.setdefault((number, each.role, *each.call), set()).update(_calls([each]))
        self._effective = {each.details.get("fault") for each in timeline.of("effective")}

    def has(self, fired: Event) -> bool:
        """Whether the fault of this event had an effect. True if the ledgers cannot tell."""
        number = fired.details["fault"]
        fault = self._facts.run.plan.faults[number]
        if number in self._effective or fault.how == "term":  # a handler may have ended its process in any way
            return True
        caller = fired.details.get("caller")
        if fault.side == "flight":  # the callee fires it when the call executes, so its caller has to have failed
            hit = set[_Call]().union(*(calls for call, calls in self._hit.items() if call[:2] == (number, caller)))
            return bool(hit) and not hit & self._valued
        own = self._hit.get((number, caller, *fired.call), set())
        if fault.place == "call" and fault.kind in ("Drop", "Raise", "Crash"):
            return not own or bool(own - (self._valued if fault.kind == "Raise" else self._answered))
        if fault.kind == "Crash":
            return any(life.process == fired.details["pid"] and not life.end.returned for life in self._facts.lives)
        if (
            fault.place == "call" and fault.kind == "Delay"
        ):  # the caller may give up before the callee records the delay
            return bool(own & self._ended)
        # A process that ends while its GIL is held cannot record the effect.
        return fault.kind == "Hold" and not self._facts.last[str(fault.role)].end.returned


def _calls(ends: Iterable[Event]) -> set[_Call]:
    return {(each.process, each.role, *each.call) for each in ends}
