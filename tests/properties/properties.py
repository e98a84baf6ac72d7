"""Properties of tutorials over generated cases: many examples through one idle world, and each of them counted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyFailure

from faults import hook
from faults.ledger import Timeline, read
from faults.plan import Plan
from faults.run.runs import prepared
from reference import load
from reference.trace import Case, Trace, TraceError, compare
from reference.verify import judge, verify
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


def machine(steps: int, *, times: int = 1) -> settings:
    """Return the chosen profile's settings for a state machine of so many steps, and so many times the examples.

    What fails is shrunk, but not explained line by line: that takes minutes where threads are many.
    """
    phases = [phase for phase in settings().phases if phase is not Phase.explain]
    return settings(max_examples=times * settings().max_examples, stateful_step_count=steps, phases=phases)


def examples(
    count: int, *, soak: int | None = None, **strategies: st.SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a property, like ``@given``, with ``count`` examples in a whole run (the default profile makes a quarter of
    them); it fails if fewer ran.

    ``soak``: the number of examples in that profile; by default a hundred times as many.
    """
    many = 100 * count if soak is None else soak
    wanted = max(1, round(many * scale() / 100)) if scale() > 1 else max(1, round(count * scale()))

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        ran = _Ran(wanted)
        explored = settings(max_examples=wanted)(given(**strategies)(ran.counting(test)))
        limited: Callable[..., None] = pytest.mark.timeout(limit())(ran.whole(explored))
        return limited

    return decorate


class _Ran:
    """The examples of one property that ran to their end."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.count = wanted, 0

    def counting(self, test: Callable[..., None]) -> Callable[..., None]:
        """Make ``test`` count each example."""

        @functools.wraps(test)
        def counted(*args: Any, **kwargs: Any) -> None:
            test(*args, **kwargs)
            self.count += 1

        return counted

    def whole(self, explored: Callable[..., None]) -> Callable[..., None]:
        """Make ``explored`` fail if too few examples ran."""

        @functools.wraps(explored)
        def complete(*args: Any, **kwargs: Any) -> None:
            self.count = 0
            explored(*args, **kwargs)
            assert self.count >= self.wanted, f"{self.count} examples ran, wanted {self.wanted}"

        return complete


def _numbered(name: str, count: int) -> list[str]:
    return [f"{name}{index}" for index in range(1, count + 1)]


# The roles that a case of `tests.properties.cases` can need, by tutorial.
ROLE_NAMES: Mapping[str, list[str]] = {
    "parameter_server": ["ps", *_numbered("worker", cases.MOST)],
    "batch_parameter_server": ["ps", *_numbered("trainer", cases.MOST)],
    "sharded_parameter_server": [*_numbered("ps", cases.SERVERS), *_numbered("trainer", cases.MOST)],
    "pipeline": ["master", "worker1", "worker2"],
    "dist_autograd": ["worker0", "worker1", "worker2"],
    "hybrid_ddp": ["ps", *_numbered("trainer", cases.MOST)],
    "rnn": ["ps", "trainer"],
    "reinforce": ["agent", *_numbered("observer", 3)],
    "batch_reinforce": ["agent", *_numbered("observer", 3)],
}


@contextmanager
def idle_world(name: str, before: Callable[[str], object] | None = None) -> Iterator[World]:
    """A world in which every case of this tutorial can be run, one after the other."""
    prologue = partial(roles_idle.prepare, then=before)
    with launch(ROLE_NAMES[name], deadline=limit(), before=prologue) as world:
        yield world


def on(name: str) -> pytest.MarkDecorator:
    """Mark a test whose fixture ``world`` is an idle world of this tutorial."""
    return pytest.mark.parametrize("world", [name], indirect=True)


def judged(trace: Trace) -> tuple[str, str]:
    """(verdict, difference) against the twin: equal, within bound, or wrong."""
    difference, verdict = judge(trace, load(trace.case.tutorial()).train_locally)
    return verdict, difference


def assert_equal(world: World, case: Case) -> Trace:
    """Run it there; bits must be the twin's."""
    trace = run_in(world, case)
    difference, verdict, explanation = verify.judged(trace)
    assert verdict == "equal", "\n".join((difference, *explanation))
    return trace


def equals_its_twin(name: str, count: int, cases: st.SearchStrategy[Any]) -> Callable[..., None]:
    """Return the property, with ``count`` examples, that each of these cases of a tutorial has the bits of its twin."""

    def test(world: World, case: Case) -> None:
        assert_equal(world, case)

    test.__name__ = test.__qualname__ = f"test_{name}_equals_its_twin"
    made: Callable[..., None] = on(name)(examples(count, case=cases)(test))
    return made


def counterexample(examples: st.SearchStrategy[Any], differs: Callable[[Any], bool], count: int) -> Any:
    """The first of at most ``count`` examples that differs. Raises NoSuchExample: a bug that nobody would notice."""
    searching = settings(max_examples=count, phases=[Phase.generate], derandomize=True, database=None)
    found: list[Any] = []

    def noticed(example: Any) -> bool:
        differing = differs(example)
        found.extend([example] if differing else [])
        return differing

    try:
        return find(examples, noticed, settings=searching)
    except FlakyFailure:  # the bug does not show each time, where threads decide; it has been noticed all the same
        return found[0]


def differs(world: World) -> Callable[[Case], bool]:
    """Compare a case's run, which must end, with its twin in bits, because the bound's twins take longer."""
    return lambda case: not _same_bits(run_in(world, case))


def _same_bits(trace: Trace) -> bool:
    try:
        return compare(trace, twin(trace.case, trace)).equal  # without an explanation of each difference
    except TraceError:
        return False


def run_under(world: World, case: Case, plan: Plan, folder: Path) -> tuple[Trace, Timeline]:
    """A run under a plan, in a world that goes on; ``folder`` is for its ledgers, and may be used again."""
    place, names = prepared(plan, folder), list(load(case.tutorial()).roles(case))
    world.run({name: partial(roles_idle.activate, str(place), name) for name in names})
    try:
        trace = run_in(world, case)
    finally:
        world.run(dict.fromkeys(names, hook.deactivate))
    return trace, read(place)
