"""A subject: the roles that run under a plan, and the judgement of their trace. Knows a tutorial by name only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from reference import load
from reference.outcome import Outcome, Returned
from reference.trace.case import Case
from reference.trace.trace import Trace
from reference.verify.verify import changes, judge, prove

# What a judgement of `reference.verify.verify` says of a trace. A refused case's twin is no measure of the run.
_TRACES = {"equal": "equal", "within bound": "equal", "unknown": "unknown", "refused": "unknown"}

Functions = Mapping[str, Callable[..., object]]


@dataclass(frozen=True)
class Subject:
    """``judge``: of all outcomes, ('equal', 'wrong' or 'unknown', in words), or None where no trace is among them.

    ``timeout``: seconds after which its roles give up a wait. ``isolated``: what `launch` is given: its roles
    need no other network.
    """

    name: str
    roles: Functions
    timeout: float
    judge: Callable[[Mapping[str, Outcome]], tuple[str, str] | None] = lambda outcomes: None
    isolated: bool = False


def of_tutorial(case: Case) -> Subject:
    """A tutorial: its trace is held against its twin's.

    Raises:
        CaseError: an exact case with a sum that rounds.
    """
    prove(case)
    module = load(case.tutorial())

    def judged(outcomes: Mapping[str, Outcome]) -> tuple[str, str] | None:
        traces = [o.value for o in outcomes.values() if isinstance(o, Returned) and isinstance(o.value, Trace)]
        if not traces:
            return None
        difference, verdict = judge(traces[0], module.train_locally)
        return _TRACES.get(verdict, "wrong"), difference

    name = f"{case.tutorial()} {changes(case)}".strip()
    return Subject(name, module.roles(case), case.timeout, judged, isolated=True)
