"""Waiting for participants that call, are silent, end, fail and come back: `Liveness` against a model.

The wait runs in a simulated thread; the test plays the participants, and decides when time passes.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reference.rpc import waiting
from reference.rpc.waiting import Liveness, ParticipantFailed
from tests.properties.properties import limit, machine
from tests.support.simulated_threads import Simulation

NAMES = "abc"
TIMEOUT = 100.0
# Seconds that pass at once: no sum of them is the time-out, or the time to stay.
SECONDS = (60.0, 0.7)
ELSEWHERE = "noticed elsewhere"


class Model:
    """What the texts promise of a wait for all participants' results.

    It returns the results, in the order of the participants, when all have ended. The first failure ends it: a
    participant fails, or is silent for `TIMEOUT`, or somebody else tells of a failure. Then the others are told; and
    the wait ends when they have ended, too, those that are silent excepted, or ``stay`` seconds later. It names the
    failure first, then all others that failed, and those that did not end.
    """

    def __init__(self, stay: float, now: float) -> None:
        self.stay = stay
        self.last = dict.fromkeys(NAMES, now)
        self.ended: set[str] = set()
        self.silent: set[str] = set()
        self.reasons: list[str] = []
        self.until = 0.0
        self.over = False

    def end(self, name: str, error: str | None, now: float) -> None:
        self.ended.add(name)
        if error is not None and not (self.reasons and self.reasons[0] in error):  # some only pass the first reason on
            self.fail(f"{name} failed: {error}", now)
        self.look(now)

    def notice(self, reason: str, silent: set[str], now: float) -> None:
        """A failure is noticed, and nothing more is to be expected from the silent."""
        if not self.reasons:
            self.silent = silent
            self.fail(reason, now)

    def fail(self, reason: str, now: float) -> None:
        self.until = self.until if self.reasons else now + self.stay
        self.reasons.append(reason)

    def look(self, now: float) -> None:
        running = [name for name in NAMES if name not in self.ended]
        due = min((self.last[name] + TIMEOUT for name in running), default=now)
        if running and due <= now:
            silent = [name for name in running if self.last[name] + TIMEOUT == due]
            self.notice(f"nothing for {TIMEOUT} s from {', '.join(silent)}", set(silent), due)
        expected = [name for name in running if name not in self.silent]
        if self.reasons and self.stay and expected and self.until <= now:
            self.reasons.append(f"nothing for {self.stay} s from {', '.join(expected)}")
        self.over = not running or (bool(self.reasons) and (not expected or self.until <= now))


class Waits(RuleBasedStateMachine):
    @initialize(stay=st.sampled_from((2.0, 0.0)))
    def begin(self, stay: float) -> None:
        self.stack = ExitStack()
        self.simulation = self.stack.enter_context(Simulation().of(waiting))
        self.stay = stay
        self.wait()

    def teardown(self) -> None:
        self.stack.close()

    def wait(self) -> None:
        self.model = Model(self.stay, self.simulation.now)
        self.calls: dict[str, torch.futures.Future[Any]] = {name: torch.futures.Future() for name in NAMES}
        self.results: dict[str, int] = {}
        self.liveness = Liveness(NAMES, TIMEOUT)
        calls, gather = self.calls, self.liveness.gather
        self.task = self.simulation.run(lambda: gather(calls, stay=self.stay), "server")

    @precondition(lambda self: self.model.over)
    @rule()
    def wait_again(self) -> None:
        """For the next episode."""
        self.wait()

    @precondition(lambda self: not self.model.over)
    @rule(name=st.sampled_from(NAMES), value=st.integers(1, 9))
    def end(self, name: str, value: int) -> None:
        if name not in self.model.ended:
            self.results[name] = value
            self.calls[name].set_result(value)
            self.simulation.settle()
            self.model.end(name, None, self.simulation.now)

    @precondition(lambda self: not self.model.over)
    @rule(name=st.sampled_from(NAMES), heard=st.booleans())
    def fail(self, name: str, heard: bool) -> None:
        """A participant fails: by itself, or of the failure that the server has told."""
        if name not in self.model.ended:
            told = self.liveness.reason
            text = f"not without the others: {told}" if heard and told else f"{name} has lost its way"
            self.calls[name].set_exception(ValueError(text))
            self.simulation.settle()
            self.model.end(name, text, self.simulation.now)

    @precondition(lambda self: not self.model.over)
    @rule()
    def fail_elsewhere(self) -> None:
        """A call of a participant fails, for instance, and ends the work for all."""
        self.simulation.run(lambda: self.liveness.fail(ELSEWHERE), "server")
        self.model.notice(ELSEWHERE, set(), self.simulation.now)
        self.model.look(self.simulation.now)

    @precondition(lambda self: not self.model.over)
    @rule(calling=st.sets(st.sampled_from(NAMES)), seconds=st.sampled_from(SECONDS))
    def call_and_pass_time(self, calling: set[str], seconds: float) -> None:
        for name in calling:
            self.liveness.heartbeat(name)
            self.model.last[name] = self.simulation.now
        self.simulation.pass_time(seconds)
        self.model.look(self.simulation.now)

    @invariant()
    def the_wait_ends_as_promised(self) -> None:
        assert self.liveness.reason == next(iter(self.model.reasons), None)
        assert self.liveness.failed.done() == bool(self.model.reasons)
        assert self.task.done == self.model.over, self.task.error
        if self.task.done and self.model.reasons:
            assert isinstance(self.task.error, ParticipantFailed), self.task.value
            assert str(self.task.error) == "; ".join(self.model.reasons)
        elif self.task.done:
            assert list(self.task.value.items()) == [(name, self.results[name]) for name in NAMES]


pytestmark = pytest.mark.timeout(limit())
TestWaits = Waits.TestCase
TestWaits.settings = machine(15, times=2)
