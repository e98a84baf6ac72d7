"""The runs of `examples/retries`: a fault hits the second of three payments."""

from __future__ import annotations

import sys
from pathlib import Path

from faults.judge.rules import Judgement
from faults.ledger.record import Run
from faults.plan import Fault, Plan
from faults.plan.kinds import CALLS
from faults.script.results import UNCHECKED, Results
from faults.script.script import run_script

EXAMPLES = Path(__file__).parents[2] / "examples" / "retries"

# Later than the caller waits (1 s): the request executes after it was sent again, or the answer comes too late.
LATER = {
    "Delay request beyond the time-out": {"kind": "Delay", "side": "request", "seconds": 1.5},
    "Delay reply beyond the time-out": {"kind": "Delay", "side": "reply", "seconds": 1.5},
}
HEALTHY = "healthy"
_KINDS = [kind for kind in CALLS if kind.name in ("Delay", "Raise", "Drop", "Duplicate", "Crash")]
FAULTS = {
    **{name: {"kind": kind.name, **values} for kind in _KINDS for name, values in kind.named_variants()},
    **LATER,
}
# The faults after which a program may not be able to finish: the callee's own error, and its death.
ENDING = ("Raise request", "Raise reply", "Raise flight", "Crash before", "Crash after")
# The faults by which a call executes twice, or executes without its caller hearing of it; and one of each other sort.
TWICE = ("Drop reply", "Duplicate", *LATER)
ONCE = ("Drop request", "Delay reply", "Raise reply")

# Each program's runs.
RUNS = {"once": (HEALTHY, *FAULTS), "naive": (HEALTHY, *TWICE, *ONCE)}


def plan_of(injection: str) -> Plan:
    if injection == HEALTHY:
        return Plan()
    return Plan((Fault(site="__main__:pay", role="customer", nth=2, **FAULTS[injection]),))


def verdict_of(injection: str) -> str:
    """Return the verdict of both programs. That a payment counts twice shows only in what they print."""
    return "failed loudly" if injection in ENDING else "unchecked"


def run(program: str, injection: str, place: Path, results: Results = UNCHECKED) -> tuple[Run, Judgement]:
    """Run a program under a fault. The run's folder is ``place / "run"``."""
    from faults.inject.messages import small_files_only  # imports torch, which who reads the table spares

    command = [sys.executable, str(EXAMPLES / f"{program}.py")]
    with small_files_only():  # no transport that spins
        return run_script(command, plan_of(injection), place / "run", deadline=90, results=results)
