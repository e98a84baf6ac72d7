"""Make a subject of a tutorial: its roles, and its trace compared with its twin's. What it imports is an extra."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from faults.run.runs import Compared, Subject
from reference import load
from reference.outcome import Outcome, Returned
from reference.trace.case import Case
from reference.trace.checkpoint import Checkpoints
from reference.trace.trace import Trace, TraceError
from reference.verify.verify import judge, prove, titled

# Translates the verdicts of `reference.verify.verify`. If a case is refused, its twin cannot judge the run.
_TRACES = {"equal": "equal", "within bound": "equal", "unknown": "unknown", "refused": "unknown"}


def of_tutorial(case: Case, *others: Case) -> Subject:
    """Make a subject of a tutorial, whose trace is compared with its twin's. Its name tells the case from ``others``.

    Raises:
        CaseError: the case is exact, but one of its sums rounds.
    """
    prove(case)
    name = titled(case, *others)
    roles = load(case.tutorial()).roles(case)
    saving = partial(_checkpoints, case)
    return Subject(name, roles, case.timeout, partial(_judged, case), isolated=True, checkpoints=saving)


def _checkpoints(case: Case, folder: Path) -> Checkpoints:
    return Checkpoints.of_case(folder, case, [*load(case.tutorial()).roles(case)], resume=True)


def _judged(case: Case, outcomes: Mapping[str, Outcome]) -> Compared | None:
    traces = [o.value for o in outcomes.values() if isinstance(o, Returned) and isinstance(o.value, Trace)]
    if not traces:
        return None
    train_locally, twins = load(case.tutorial()).train_locally, list[Trace]()

    def twin(*given: Any, **how: Any) -> Trace:
        twins.append(train_locally(*given, **how))
        return twins[-1]

    difference, verdict = judge(traces[0], twin)
    losses = {"run": traces[0], **({"twin": twins[0]} if twins else {})}
    return Compared(_TRACES.get(verdict, "wrong"), difference, dict(_finite(losses)))


def _finite(traces: Mapping[str, Trace]) -> Iterator[tuple[str, list[float]]]:
    for name, trace in traces.items():
        with suppress(TraceError):  # a loss is not one number
            if all(map(math.isfinite, losses := trace.losses())):
                yield name, losses
