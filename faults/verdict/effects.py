"""Tell from the ledgers whether a fault that fired had its effect. Read all calls once, not once per fault."""

from __future__ import annotations

from collections.abc import Iterable

from faults.ledger.ledger import Event
from faults.ledger.record import Run
from faults.plan.crash_ways import status_of
from faults.verdict.planned_ends import is_planned_end

# A call: its caller, its site, and its number among this caller's calls of the site.
_Call = tuple[object, object, object]


class Effects:
    """The effects of one run's faults."""

    def __init__(self, run: Run) -> None:
        self._run = run
        answers = run.timeline.of("ok")
        self._answered = _calls(answers)
        # For `rpc.remote` an "ok" says only that the call arrived: an exception is raised when the value is fetched.
        self._valued = _calls(each for each in answers if each.details.get("via") != "remote")
        self._ended = _calls(run.timeline.of("fail", "info"))
        self._effective = {each.details.get("fault") for each in run.timeline.of("effective")}

    def has(self, fired: Event) -> bool:
        """Whether the fault of this event had its effect. True if the ledgers cannot tell."""
        number = fired.details["fault"]
        fault = self._run.plan.faults[number]
        if fault.side == "flight":  # the callee fires it when the call executes, so the caller has to have failed
            hit = self._hit_calls(number, fired.details["caller"])
            if not hit or hit & self._valued:
                return False
            # A process that ends by the error may not have recorded how the call ended.
            return hit <= self._ended or self._failed(str(fired.details["caller"]))
        if fault.how == "term" and _is_own(fired) and self._ended_at_once(fired.role):
            return True  # a handler may end the process before another thread can record the effect
        if fault.place == "call" and fault.how == "term":  # a program that handles the signal may still answer
            return number in self._effective or self._killed(fired.role, fired)
        if fault.place == "call" and fault.kind in ("Drop", "Raise", "Crash"):
            call = (fired.details["caller"], fired.details["site"], fired.details["nth"])
            return call not in (self._valued if fault.kind == "Raise" else self._answered)
        given_up = (fired.details.get("caller"), *fired.call) in self._ended
        if fault.place == "call" and fault.kind == "Delay" and given_up:
            return True  # the caller gave up before the callee could record the delay
        if fault.kind == "Hold" and self._ended_within(str(fault.role), fired.time + (fault.seconds or 0)):
            return True  # a process that ends while its GIL is held cannot record the effect
        if fault.kind == "Crash" and self._killed(str(fault.role), fired):
            return True  # a process that kills itself cannot record the effect
        return number in self._effective

    def _hit_calls(self, number: int, caller: str) -> set[_Call]:
        """Return the calls that this caller says the fault has hit."""
        begun = self._run.timeline.of("invoke")
        return _calls(each for each in begun if each.role == caller and number in each.details.get("faults", ()))

    def _failed(self, role: str) -> bool:
        end = self._run.ends.get(role)
        return end is not None and not end.returned

    def _ended_at_once(self, role: str) -> bool:
        """Whether the role's process has ended by an error, or as a handler of SIGTERM may end it."""
        end = self._run.ends.get(role)
        return end is not None and end.kind in ("Raised", "Vanished", "Ended")

    def _ended_within(self, role: str, time: float) -> bool:
        """Whether the role did not return, and ended before this time."""
        end = self._run.ends.get(role)
        return end is not None and not end.returned and end.time - self._run.start < time

    def _killed(self, role: str, fired: Event) -> bool:
        """Whether this role has ended as the crash ends it, or its process has recorded the status of the crash."""
        status = status_of(self._run.plan.faults[fired.details["fault"]].how)
        told = [each for each in self._run.timeline.of("exit") if each.may_be_of(role, fired.process)]
        if status is not None and any(each.details.get("status") == status for each in told):
            return True
        end = self._run.ends.get(role)
        return end is not None and end.kind in ("Killed", "Exited") and is_planned_end(self._run, role, end)


def _is_own(crash: Event) -> bool:
    """Whether the process that fired a crash is the one that it ends."""
    return bool(crash.details.get("pid", crash.process) == crash.process)


def _calls(ends: Iterable[Event]) -> set[_Call]:
    return {(each.role, *each.call) for each in ends}
