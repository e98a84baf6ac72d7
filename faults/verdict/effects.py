"""Tell from the ledgers whether a fault that fired had its effect. All calls are read once, not once per fault."""

from __future__ import annotations

from collections.abc import Iterable

from faults.ledger.ledger import Event
from faults.ledger.record import Run

# Its caller, its site, and which call of that site by that caller it is.
_Call = tuple[object, object, object]


class Effects:
    """Of one run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        answers = run.timeline.of("ok")
        self._answered = _calls(answers)
        # Of `rpc.remote` an "ok" says that the call got there; an exception waits for who fetches the value.
        self._valued = _calls(each for each in answers if each.details.get("via") != "remote")
        self._ended = _calls(run.timeline.of("fail", "info"))
        self._effective = {each.details.get("fault") for each in run.timeline.of("effective")}

    def has(self, fired: Event) -> bool:
        """Whether the fault of this event had its effect, or nothing can tell."""
        number = fired.details["fault"]
        fault = self._run.plan.faults[number]
        if fault.place == "call" and fault.kind in ("Drop", "Raise", "Crash"):
            call = (fired.details["caller"], fired.details["site"], fired.details["nth"])
            return call not in (self._valued if fault.kind == "Raise" else self._answered)
        given_up = (fired.details.get("caller"), *fired.call) in self._ended
        if fault.place == "call" and fault.kind == "Delay" and given_up:
            return True  # the callee had no time left to say how late it was
        if fault.kind == "Crash" and self._killed(str(fault.role)):
            return True  # of who kills itself nobody writes down the effect
        return number in self._effective

    def _killed(self, role: str) -> bool:
        return role in self._run.ends and self._run.ends[role].kind == "Killed"


def _calls(ends: Iterable[Event]) -> set[_Call]:
    return {(each.role, *each.call) for each in ends}
