"""Ledgers that several processes write, fork, close and are killed with: what a reader gets, against a model.

The processes are real. The test tells each when to write, so it knows the order of all lines.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from faults.ledger import read
from faults.ledger.ledger import SCHEMA
from faults.ledger.moments_seen import census, steps_of
from tests.properties.properties import limit, machine
from tests.support.ledger_lives import Lives

ROLES = ("ps", "trainer1")
SITES = ("shop:pay", "shop:refund")
Details = dict[str, Any]


@dataclass
class Life:
    """A process that plays a role. ``calls``: how often it has called each site."""

    process: int
    role: str
    closed: bool = False
    calls: dict[str, int] = field(default_factory=dict)


class Model:
    """What the texts promise of ledgers.

    What a process has written stays, even if it is killed. A line that is torn by the kill is counted and is no event.
    It hurts no other line. An event has its role, process and details, and all come in the order in which they
    happened. A closed ledger takes no more. A forked child writes to its parent's ledger. The calls of a role are those
    of the life that made the most, because each counts anew.
    """

    def __init__(self) -> None:
        self.events: list[tuple[str, str, int, Details]] = []
        self.torn: dict[str, int] = {}
        self.calls: dict[str, dict[str, int]] = {}

    def write(self, life: Life, event: str, details: Details) -> None:
        if not life.closed:
            self.events.append((life.role, event, life.process, details))
            if event == "invoke":
                callers = self.calls.setdefault(details["site"], {})
                callers[life.role] = max(details["nth"], callers.get(life.role, 0))

    def tear(self, life: Life) -> None:
        if not life.closed:
            self.torn[life.role] = self.torn.get(life.role, 0) + 1

    def of(self, *events: str) -> list[tuple[str, str, int, Details]]:
        return [each for each in self.events if each[1] in events]

    def facts(self) -> set[tuple[str, str, int]]:
        return {(role, event, details["fault"]) for role, event, _, details in self.of("fired", "effective")}

    def steps(self, role: str) -> list[int]:
        return sorted({details["number"] for by, _, _, details in self.of("step") if by == role})


a_life = st.runner().flatmap(lambda machine: st.sampled_from(machine.lives))
notes = st.dictionaries(st.sampled_from(("note", "stack")), st.text() | st.floats(allow_nan=False) | st.none())
details_of = st.one_of(
    st.tuples(st.just("step"), st.fixed_dictionaries({"number": st.integers(0, 3)})),
    st.tuples(st.sampled_from(("fired", "effective")), st.fixed_dictionaries({"fault": st.integers(0, 2)})),
    st.tuples(st.just("x"), notes),
)


class Ledgers(RuleBasedStateMachine):
    processes: ClassVar[Lives]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.lives: list[Life] = []
        self.opened: set[str] = set()
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = Path(self.scratch.name)

    def teardown(self) -> None:
        for life in self.lives:
            self.processes.kill(life.process)
        self.scratch.cleanup()

    @initialize(role=st.sampled_from(ROLES))
    def first(self, role: str) -> None:
        before = time.monotonic()
        self.begin(role)
        self.zero = before, time.monotonic()

    @rule(role=st.sampled_from(ROLES))
    def begin(self, role: str) -> None:
        """A role begins, or one more process plays it."""
        self.lives.append(Life(self.processes.begin(self.folder, role), role))
        self.model.write(self.lives[-1], "start", {"schema": SCHEMA, "pid": self.lives[-1].process})
        self.opened.add(role)

    @precondition(lambda self: self.lives)
    @rule(parent=a_life)
    def fork(self, parent: Life) -> None:
        self.lives.append(Life(self.processes.fork(parent.process), parent.role, parent.closed))

    @precondition(lambda self: self.lives)
    @rule(life=a_life, what=details_of)
    def write(self, life: Life, what: tuple[str, Details]) -> None:
        self.processes.write(life.process, *what)
        self.model.write(life, *what)

    @precondition(lambda self: self.lives)
    @rule(life=a_life, site=st.sampled_from(SITES))
    def call(self, life: Life, site: str) -> None:
        life.calls[site] = life.calls.get(site, 0) + 1
        self.write(life, ("invoke", {"site": site, "nth": life.calls[site]}))

    @precondition(lambda self: self.lives)
    @rule(life=a_life)
    def close(self, life: Life) -> None:
        self.processes.close(life.process)
        life.closed = True

    @precondition(lambda self: self.lives)
    @rule(life=a_life)
    def kill(self, life: Life) -> None:
        self.processes.kill(life.process)
        self.lives.remove(life)

    @precondition(lambda self: self.lives)
    @rule(life=a_life, kept=st.floats(0, 1))
    def kill_within_a_line(self, life: Life, kept: float) -> None:
        """A kill cuts a line short: at least its end is missing."""
        path = self.folder / f"{life.role}.jsonl"
        before = path.stat().st_size
        self.processes.write(life.process, "x", {"note": "torn"})
        self.kill(life)
        content = path.read_bytes()
        if line := content[before:].lstrip(b"\n"):  # after a torn line it begins a new one
            os.truncate(path, len(content) - len(line) + 1 + round(kept * (len(line) - 3)))
        self.model.tear(life)

    @invariant()
    def the_reader_gets_what_was_written(self) -> None:
        timeline = read(self.folder)
        assert set(timeline.roles) == self.opened
        assert timeline.torn == self.model.torn
        got = [(each.role, each.event, each.process, dict(each.details)) for each in timeline.events]
        for _, event, _, details in got:
            if event == "start":
                del details["wall"], details["boot"], details["world"]
        assert got == self.model.events
        times = [each.time for each in timeline.events]
        assert times == sorted(times)
        assert times[0] == 0.0
        assert self.zero[0] <= timeline.zero <= self.zero[1]

    @invariant()
    def what_is_derived_is_right(self) -> None:
        timeline = read(self.folder)
        assert {site: dict(each.callers) for site, each in census(timeline).items()} == self.model.calls
        assert {role: steps_of(role, timeline) for role in ROLES} == {role: self.model.steps(role) for role in ROLES}
        facts = {(role, event, dict(details)["fault"]) for role, event, details in timeline.facts()}
        assert facts == self.model.facts()
        assert [each.event for each in timeline.of("fired", "step")] == [
            each[1] for each in self.model.of("fired", "step")
        ]


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    with Lives.started(tmp_path_factory.mktemp("lives")) as lives:
        yield lives


@pytest.mark.timeout(limit())
def test_ledgers(processes: Lives) -> None:
    Ledgers.processes = processes
    run_state_machine_as_test(Ledgers, settings=machine(20))
