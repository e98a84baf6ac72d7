"""Run a tutorial in a test, and compare its trace with its twin's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from reference import load
from reference.explain.explain import explain
from reference.outcome import Outcome
from reference.rounding import bound
from reference.trace import Case, Comparison, Trace, compare
from reference.verify.verify import trace_of
from reference.world import World, launch
from tests.support.processes import left_after


def launch_and_wait(case: Case, deadline: float = 60, **arguments: Any) -> dict[str, Outcome]:
    """Launch a world of its own, and return the outcomes."""
    with launch(load(case.tutorial()).roles(case), deadline=deadline, **arguments) as world:
        return world.wait()


def end_of(role: str, playing: Mapping[str, Callable[[], object]], *, limit: float, **arguments: Any) -> Outcome:
    """Return how ``role`` ends by itself, within ``limit`` seconds; then end the other roles, even stuck ones.

    For a world with a stopped role: `World.wait` would wait for that role until the deadline.
    """
    with launch(playing, deadline=2 * limit, **arguments) as world:
        assert not left_after({world.pids[role]}, limit), f"{role} still plays after {limit} s"
    return world.outcomes[role]


def run(case: Case, **arguments: Any) -> Trace:
    """Return the trace of a world of its own."""
    return trace_of(launch_and_wait(case, **arguments))


def run_in(world: World, case: Case) -> Trace:
    """Return the trace of a run on the idle roles of an existing world."""
    outcomes: Mapping[str, Outcome] = world.run(load(case.tutorial()).roles(case))
    return trace_of(outcomes)


def twin(case: Case, replay: Trace | None = None) -> Trace:
    trace: Trace = load(case.tutorial()).train_locally(case, replay)
    return trace


def against_twin(trace: Trace) -> Comparison:
    """Compare a run with its twin. Of a difference, the explanation is printed: pytest shows it with the failure."""
    right = twin(trace.case, trace)
    found = compare(trace, right)
    if not found.equal:
        sys.stdout.write(f"{explain(trace.tensors, right)}\n")
    return found


def rounding_bound(run: Trace, twins: Iterable[Trace], exact: Trace) -> bound.NaturalBound:
    """Compare a run with ``exact``, its float64 twin, by the errors of ``twins``."""
    return bound.bound_of(run, bound.twin_errors(twins, exact))
