"""Running a tutorial in a test: its trace beside its twin's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reference import load
from reference.outcome import Outcome
from reference.rounding.bound import NaturalBound, rounding_bound
from reference.trace import Case, Comparison, Trace, compare
from reference.verify.verify import trace_of, twins_for
from reference.world import World, launch
from tests.support.processes import left_after


def play(case: Case, deadline: float = 60, **arguments: Any) -> dict[str, Outcome]:
    """The outcomes of a world of its own."""
    with launch(load(case.tutorial()).roles(case), deadline=deadline, **arguments) as world:
        return world.wait()


def end_of(role: str, playing: Mapping[str, Callable[[], object]], *, limit: float, **arguments: Any) -> Outcome:
    """How ``role`` ends of itself, within ``limit`` seconds; then the others are ended, also one that never would.

    For a world in which somebody is stopped: `World.wait` would wait for that one until the deadline.
    """
    with launch(playing, deadline=2 * limit, **arguments) as world:
        assert not left_after({world.pids[role]}, limit), f"{role} still plays after {limit} s"
    return world.outcomes[role]


def run(case: Case, **arguments: Any) -> Trace:
    """The trace of a world of its own."""
    return trace_of(play(case, **arguments))


def run_in(world: World, case: Case) -> Trace:
    """The trace of a run on the idle roles of a world that goes on."""
    outcomes: Mapping[str, Outcome] = world.run(load(case.tutorial()).roles(case))
    return trace_of(outcomes)


def twin(case: Case, replay: Trace | None = None) -> Trace:
    trace: Trace = load(case.tutorial()).train_locally(case, replay)
    return trace


def against_twin(trace: Trace) -> Comparison:
    return compare(trace, twin(trace.case, trace))


def bound_of(run: Trace, case: Case | None = None) -> NaturalBound:
    """How far the run is off, by the twins of ``case``, where that is another than its own."""
    other = case or run.case
    return rounding_bound(run, *twins_for(twin(other, run), run, load(other.tutorial()).train_locally))
