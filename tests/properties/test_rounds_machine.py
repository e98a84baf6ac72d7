"""A server's rounds, whatever its trainers do and in which order: the batch parameter server against a model.

The server's own code runs in simulated threads; the test plays the trainers, and decides when time passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from torch.optim.optimizer import register_optimizer_step_pre_hook

from reference import batch_parameter_server as batch
from reference.rpc import rounds as rounds_module
from reference.rpc import waiting
from reference.trace import Trace
from tests.properties.properties import limit, machine
from tests.support.simulated_threads import Simulation, Task

TIMEOUT, LR = 100.0, 0.5
NAMES = ("trainer1", "trainer2", "trainer3", "trainer4")


class Model:
    """What the texts promise of a server's rounds.

    Every trainer reports once per round, and the last report completes the round for all. A round is due `TIMEOUT`
    after its begin; after the last one the trainers' ends are. A trainer that is lost, or missing when a round is due,
    or whose report cannot be used, fails the round for all that wait and for all later reports. Other reports are
    refused and change nothing. The server ends when all trainers have ended. After a failure it stays for at most
    `FAREWELL_SECONDS`, not for those that were missing, and names all that failed or did not end.
    """

    def __init__(self, names: Iterable[str], rounds: int) -> None:
        self.names, self.rounds = set(names), rounds
        self.number, self.due = 0, TIMEOUT
        self.given: dict[str, int] = {}
        self.moved = 0.0  # what all updates have added to each parameter
        self.failed: frozenset[str] = frozenset()  # who made the round fail
        self.named: set[str] = set()
        self.missed: set[str] = set()
        self.ended: set[str] = set()
        self.stays = 0.0

    def accepts(self, name: str) -> bool:
        return name in self.names - self.given.keys() and self.number < self.rounds and not self.failed

    def complete(self, now: float) -> None:
        self.moved -= LR * 12 * sum(self.given.values()) / len(self.names)
        self.number, self.given, self.due = self.number + 1, {}, now + TIMEOUT

    def fail(self, names: Iterable[str], now: float) -> None:
        if not self.over:
            self.named.update(names)
        if not self.failed:
            self.failed, self.stays = frozenset(names), now + waiting.FAREWELL_SECONDS

    def pass_until(self, now: float) -> None:
        missing = self.names - (self.given.keys() if self.number < self.rounds else self.ended)
        if self.due <= now and missing and not self.failed:
            self.fail(missing, self.due)
            self.missed = missing
        if self.failed and self.stays <= now and not self.over:
            self.named |= self.names - self.ended
            self.missed = self.names - self.ended

    @property
    def over(self) -> bool:
        return self.names <= self.ended | self.missed


@dataclass
class Report:
    """One that was accepted. ``moved``: the parameters' move in its answer; None while it waits, or has failed."""

    name: str
    number: int
    task: Task
    moved: float | None = None


def one(names: Callable[[Model], Iterable[str]]) -> st.SearchStrategy[str]:
    """Draw one of these names of the machine's model."""
    return st.runner().flatmap(lambda machine: st.sampled_from(sorted(names(machine.model))))


member = one(lambda model: model.names)
alive = one(lambda model: model.names - model.ended)
missing = one(lambda model: model.names - model.given.keys() or model.names)
ROUND = st.integers(0, 2)


class Rounds(RuleBasedStateMachine):
    @initialize(
        trainers=st.sampled_from((3, 2, 4, 1)), rounds=st.integers(1, 3), calm=ROUND, slow=st.sets(ROUND, min_size=1)
    )
    def begin(self, trainers: int, rounds: int, calm: int, slow: set[int]) -> None:
        """``calm``: rounds in which nothing fails; otherwise few examples would come to a second round.
        ``slow``: rounds in which the optimizer's step takes long."""
        self.stack, self.model = ExitStack(), Model(NAMES[:trainers], rounds)
        self.calls: dict[str, torch.futures.Future[Any]] = {}
        self.reports: list[Report] = []
        self.heard: dict[str, BaseException] = {}
        self.slow, self.updating, self.calm = slow, False, min(calm, rounds)
        names = {
            "rpc": SimpleNamespace(rpc_async=self.start_trainer),
            "RRef": lambda ps: SimpleNamespace(local_value=lambda: ps),
        }
        self.simulation = self.stack.enter_context(Simulation().of(batch, rounds_module, waiting, **names))
        self.stack.callback(register_optimizer_step_pre_hook(self.step).remove)
        model: dict[str, Any] = {"model": "mlp", "image_w": 4, "image_h": 4, "num_classes": 2, "dtype": "float64"}
        case = batch.Case(**model, trainers=trainers, steps=rounds, timeout=TIMEOUT, lr=LR, momentum=0.0)
        self.initial = [parameter.detach().clone() for parameter in batch.initial_model(case).parameters()]
        self.server = self.simulation.start(lambda: batch.run_ps(case), "ps")
        self.simulation.settle()
        assert self.calls.keys() == self.model.names

    def teardown(self) -> None:
        self.stack.close()

    def start_trainer(self, to: str, _: object, args: tuple[Any, ...], timeout: float) -> torch.futures.Future[Any]:
        self.ps_rref, self.calls[to] = args[0], torch.futures.Future()
        return self.calls[to]

    def step(self, *_: object) -> None:
        """Take long, if the round is ``slow``."""
        self.updating = True
        self.simulation.wait(lambda: self.model.number not in self.slow)
        self.updating = False

    # All values are multiples of 12, so that their mean over up to four trainers is exact.
    def send(self, name: str, value: float, buffers: tuple[torch.Tensor, ...] = ()) -> Task:
        """Send a report whose gradients are all ``value``."""
        grads = [torch.full_like(each, 12.0 * value) for each in self.initial]
        update = batch.BatchUpdateParameterServer.update_and_fetch_model
        return self.simulation.run(lambda: update(self.ps_rref, name, grads, buffers), "ps")

    @precondition(lambda self: not self.updating)
    @rule(name=missing | missing | member, value=st.integers(1, 9))
    def report(self, name: str, value: int) -> None:
        """A trainer reports, perhaps a second time, or after the last round."""
        accepted = self.model.accepts(name)
        task = self.send(name, value)
        if not accepted:
            self.assert_refused(name, task)
            return
        self.model.given[name] = value
        self.reports.append(Report(name, self.model.number, task))
        whole = self.model.given.keys() == self.model.names
        assert self.updating == (whole and self.model.number in self.slow)
        if whole and not self.updating:
            self.complete()

    @precondition(lambda self: not self.updating)
    @rule(order=st.permutations(NAMES), value=st.integers(1, 9))
    def report_all(self, order: list[str], value: int) -> None:
        """All that are missing report, in this order."""
        round_ = self.model.number
        for name in order:
            if self.model.accepts(name) and self.model.number == round_:
                self.report(name, value + int(name[-1]))

    @precondition(lambda self: not self.updating)
    @rule()
    def report_of_a_stranger(self) -> None:
        self.assert_refused("stranger", self.send("stranger", 1.0))

    def may_fail(self) -> bool:
        return self.model.number >= self.calm

    def assert_refused(self, name: str, task: Task) -> None:
        assert isinstance(task.error, batch.RoundFailed), "accepted"
        if self.model.failed:
            assert self.tells_failure(task.error)
            self.heard.setdefault(name, task.error)

    def tells_failure(self, error: BaseException) -> bool:
        text = str(error).splitlines()[0]
        return f"round {self.model.number}: " in text and named_in(text) == self.model.failed

    @precondition(lambda self: not self.updating and self.may_fail())
    @rule(name=member)
    def report_with_other_shapes(self, name: str) -> None:
        """The server cannot add it, so nobody gets this round's result."""
        accepted = self.model.accepts(name)
        task = self.send(name, 1.0, (torch.zeros(7),))
        if accepted:
            self.model.fail({name}, self.simulation.now)
        self.assert_refused(name, task)

    @precondition(lambda self: self.updating)
    @rule(lost=st.none() | member)
    def end_the_update(self, lost: str | None) -> None:
        """Perhaps a trainer is lost meanwhile."""
        if lost is not None and lost not in self.model.ended and self.may_fail():
            self.die(lost)
        self.slow.discard(self.model.number)
        self.simulation.settle()
        if not self.model.failed:
            self.complete()

    def complete(self) -> None:
        waiting = [each for each in self.reports if each.moved is None]
        self.model.complete(self.simulation.now)
        for each in waiting:
            each.moved = self.model.moved

    @precondition(lambda self: self.some_run() and self.may_fail())
    @rule(name=alive)
    def die(self, name: str) -> None:
        self.model.fail({name}, self.simulation.now)
        self.end(name, RuntimeError("EOF: end of file"))

    @precondition(lambda self: self.some_run() and (self.heard or self.model.number == self.model.rounds))
    @rule(name=alive)
    def end_by_itself(self, name: str) -> None:
        """A trainer fails of what it has heard, or returns after the last round."""
        if name in self.heard:
            self.end(name, RuntimeError(str(self.heard[name])))
        elif self.model.number == self.model.rounds:
            loss = torch.tensor(float(name[-1]), dtype=torch.float64)
            self.end(name, {f"{step:04d}/loss/{name}": loss for step in range(self.model.rounds)})

    @precondition(lambda self: self.some_run() and (self.heard or self.model.number == self.model.rounds))
    @rule(order=st.permutations(NAMES))
    def end_by_themselves(self, order: list[str]) -> None:
        for name in order:
            if name in self.model.names - self.model.ended:
                self.end_by_itself(name)

    def some_run(self) -> bool:
        return self.model.ended != self.model.names

    def end(self, name: str, result: object) -> None:
        """A trainer's call ends."""
        self.model.ended.add(name)
        call = self.calls[name]
        call.set_exception(result) if isinstance(result, Exception) else call.set_result(result)
        self.simulation.settle()

    @rule(to=st.sampled_from(("before it is due", "after it is due", "soon")))
    def pass_time(self, to: str) -> None:
        left = self.model.due - self.simulation.now
        seconds = {"before it is due": left - 0.3, "after it is due": left + 0.3, "soon": 0.7}[to]
        if seconds > 0 and (seconds < left or self.updating or self.may_fail()):
            self.simulation.pass_time(seconds)
            self.model.pass_until(self.simulation.now)

    @invariant()
    def every_answer_is_that_of_its_round(self) -> None:
        begun = self.model.number + (self.model.given.keys() == self.model.names)
        for each in self.reports:
            if each.moved is not None:
                assert answered(each.task), each
                if each.number < begun - 1:
                    continue  # it has arrived long since: all have reported again, so the model goes on
                model = each.task.value.value()
                moved = [after - before for after, before in zip(model.parameters(), self.initial, strict=True)]
                assert all(bool((tensor == each.moved).all()) for tensor in moved), (moved, each)
            elif self.model.failed:
                error = error_of(each.task)
                if self.updating and each is self.reports[-1]:  # its own call is still at work
                    assert error is None
                else:
                    assert error is not None
                    assert self.tells_failure(error)
                    self.heard.setdefault(each.name, error)
            else:
                assert not answered(each.task), each

    @invariant()
    def the_server_ends_when_all_have_ended(self) -> None:
        assert self.server.done == self.model.over, (self.server.error, self.model.ended)
        if not self.server.done:
            return
        if self.model.failed:
            assert isinstance(self.server.error, batch.RoundFailed)
            assert self.tells_failure(RuntimeError(str(self.server.error).split("; ")[0]))
            assert named_in(str(self.server.error)) == self.model.named
        else:
            assert isinstance(self.server.value, Trace), self.server.error
            losses = {name: t.item() for name, t in self.server.value.tensors.items() if name.startswith("0000/loss")}
            assert losses == {f"0000/loss/{name}": float(name[-1]) for name in self.model.names}


def answered(task: Task) -> bool:
    return task.error is not None or (task.done and task.value.done())


def error_of(task: Task) -> BaseException | None:
    """The error of an answer, if there is one."""
    if not answered(task) or task.error is not None:
        return task.error
    try:
        task.value.value()
    except RuntimeError as error:
        return error
    return None


def named_in(text: str) -> set[str]:
    return set(re.findall(r"trainer\d", text))


pytestmark = pytest.mark.timeout(limit())
TestRounds = Rounds.TestCase
TestRounds.settings = machine(15, times=2)
