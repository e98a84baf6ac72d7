"""Properties of tutorials over generated cases: many examples through one idle world."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from faults import hook
from faults.ledger import Timeline, read
from faults.plan import Plan
from faults.run.runs import prepared
from reference import load
from reference.trace import Case, Trace, TraceError, compare
from reference.verify import verify
from reference.world import World, launch
from tests.properties import cases
from tests.support import roles_idle
from tests.support.runs import run_in, twin

# Seconds of a test, and of a world, in the default profile.
LIMIT = 170.0


def scale() -> float:
    """Return the factor by which the chosen profile wants more examples than are promised."""
    return settings().max_examples / 100


def limit() -> float:
    """Return the seconds of a test, and of a world, in the chosen profile."""
    return LIMIT * max(1.0, scale())


def phases() -> list[Phase]:
    """Return the chosen profile's phases. What fails is shrunk, but not explained line by line, which takes minutes."""
    return [phase for phase in settings().phases if phase is not Phase.explain]


def machine(steps: int, *, times: int = 1) -> settings:
    """Return the chosen profile's settings for a state machine of so many steps, and so many times the examples."""
    return settings(max_examples=times * settings().max_examples, stateful_step_count=steps, phases=phases())


def examples(
    count: int, *, soak: int | None = None, **strategies: st.SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a property, like ``@given``, with ``count`` examples in a whole run. The default profile makes a quarter of
    them.

    ``soak``: the number of examples in that profile; by default a hundred times as many.
    """
    many = 100 * count if soak is None else soak
    wanted = max(1, round(many * scale() / 100)) if scale() > 1 else max(1, round(count * scale()))

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        explored = settings(max_examples=wanted, phases=phases())(given(**strategies)(test))
        limited: Callable[..., None] = pytest.mark.timeout(limit())(explored)
        return limited

    return decorate


@contextmanager
def idle_world(name: str, before: Callable[[str], object] | None = None) -> Iterator[World]:
    """A world in which every case of this tutorial can be run, one after the other."""
    tutorial, prologue = load(name), partial(roles_idle.prepare, then=before)
    numbers = [item.name for item in fields(tutorial.Case) if item.metadata.get("scales") or item.name == "servers"]
    names = list(tutorial.roles(tutorial.Case(**dict.fromkeys(numbers, cases.MOST))))
    with launch(names, deadline=limit(), before=prologue) as world:
        yield world


def on(name: str) -> pytest.MarkDecorator:
    """Mark a test whose fixture ``world`` is an idle world of this tutorial."""
    return pytest.mark.parametrize("world", [name], indirect=True)


def assert_equal(world: World, case: Case) -> None:
    """Run it there; bits must be the twin's."""
    difference, verdict, explanation = verify.judged(run_in(world, case))
    assert verdict == "equal", "\n".join((difference, *explanation))


def differs(world: World, case: Case) -> bool:
    """Compare a case's run, which must end, with its twin in bits, because the bound's twins take longer."""
    trace = run_in(world, case)
    try:
        return not compare(trace, twin(trace.case, trace)).equal  # without an explanation of each difference
    except TraceError:
        return True


def run_under(world: World, case: Case, plan: Plan, folder: Path) -> tuple[Trace, Timeline]:
    """A run under a plan, in a world that goes on; ``folder`` is for its ledgers, and may be used again."""
    place, names = prepared(plan, folder), list(load(case.tutorial()).roles(case))
    world.run({name: partial(hook.activate, str(place), name) for name in names})
    try:
        trace = run_in(world, case)
    finally:
        world.run(dict.fromkeys(names, hook.deactivate))
    return trace, read(place)
