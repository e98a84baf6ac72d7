"""A subject: the roles that run under a plan, and the judgement of their trace. Knows a tutorial by name only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from reference import load
from reference.outcome import Outcome, Returned
from reference.trace.case import Case
from reference.trace.trace import Trace
from reference.verify.verify import changes, judge, prove

# Translates the verdicts of `reference.verify.verify`. If a case is refused, its twin cannot judge the run.
_TRACES = {"equal": "equal", "within bound": "equal", "unknown": "unknown", "refused": "unknown"}

Functions = Mapping[str, Callable[..., object]]


@dataclass(frozen=True)
class Subject:
    """The roles of a program, and how to judge their trace.

    ``judge``: turns all outcomes into ('equal', 'wrong' or 'unknown', a description), or None if there is no trace.
    ``timeout``: seconds after which its roles give up a wait. ``isolated``: the argument of `launch`; its roles need no
    other network.
    """

    name: str
    roles: Functions
    timeout: float
    judge: Callable[[Mapping[str, Outcome]], tuple[str, str] | None] = lambda outcomes: None
    isolated: bool = False


def of_tutorial(case: Case) -> Subject:
    """Make a subject of a tutorial, whose trace is compared with its twin's.

    Raises:
        CaseError: the case is exact, but one of its sums rounds.
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
