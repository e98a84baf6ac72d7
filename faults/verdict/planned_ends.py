"""Tell whether a role ended in the way in which a `Crash` of the plan ends it."""

from __future__ import annotations

import re

from faults.ledger.record import End, Run
from faults.plan.crash_ways import signals_of_end, status_of
from faults.plan.plan import Fault
from reference.outcome import Exited, Killed

# The end of a role whose signal is known. Of a script's role it is not.
_BY_SIGNAL = re.compile(r"was killed by (SIG\w+|signal \d+)$")
# Ends of a program that has a handler for SIGTERM, or that its own pool ends with the others.
_BY_ITSELF = ("Exited", "Vanished", "Ended", "Stuck")


def crashes_of(run: Run, role: str) -> list[Fault]:
    """Return the crashes that fired and that hit this role."""
    crashes = {number: fault for number, fault in enumerate(run.plan.faults) if fault.kind == "Crash"}
    fired = [(crashes[n], each.role) for each in run.timeline.of("fired") if (n := each.details["fault"]) in crashes]
    return [fault for fault, by in fired if role == (fault.role if fault.place == "process" else by)]


def killed_texts(run: Run, role: str) -> set[str]:
    """Return what the outcome of a process says that these crashes have killed."""
    return {str(Killed(number)) for fault in crashes_of(run, role) for number in signals_of_end(fault.how)}


def is_planned_end(run: Run, role: str, end: End) -> bool:
    """Whether a crash ends a role so: by its signal, by its status, or in order where the role handles SIGTERM."""
    return any(_ends_so(fault, end) for fault in crashes_of(run, role))


def _ends_so(fault: Fault, end: End) -> bool:
    status, signals = status_of(fault.how), signals_of_end(fault.how)
    if end.kind == "Killed":
        seen = _BY_SIGNAL.match(end.text)
        return bool(signals) and (not seen or end.text in {str(Killed(number)) for number in signals})
    if end.kind == "Exited":
        return fault.how == "term" or end.text == str(Exited(-1 if status is None else status))
    return end.kind in _BY_ITSELF
