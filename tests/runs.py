"""Running a tutorial in a test: its trace beside its twin's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reference.case import Case
from reference.outcome import Outcome
from reference.trace import Comparison, Trace, compare
from reference.verify import trace_of, tutorial
from reference.world import World, launch


def play(case: Case, deadline: float = 60, **arguments: Any) -> dict[str, Outcome]:
    """The outcomes of a world of its own."""
    with launch(tutorial(case.tutorial()).roles(case), deadline=deadline, **arguments) as world:
        return world.wait()


def run(case: Case, **arguments: Any) -> Trace:
    """The trace of a world of its own."""
    return trace_of(play(case, **arguments))


def run_in(world: World, case: Case) -> Trace:
    """The trace of a run on the idle roles of a world that goes on."""
    outcomes: Mapping[str, Outcome] = world.run(tutorial(case.tutorial()).roles(case))
    return trace_of(outcomes)


def twin(case: Case, replay: Trace | None = None) -> Trace:
    trace: Trace = tutorial(case.tutorial()).train_locally(case, replay)
    return trace


def against_twin(trace: Trace) -> Comparison:
    return compare(trace, twin(trace.case, trace))
