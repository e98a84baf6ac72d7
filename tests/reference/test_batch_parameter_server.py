"""The batch-updating parameter server: its reports, and trainers that fail. tests/properties has runs and twins."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from faults.ledger import read
from faults.plan import Plan
from faults.run.runs import scope
from reference.batch_parameter_server import (
    BatchUpdateParameterServer,
    Case,
    RoundFailed,
    Trainer,
    roles,
)
from reference.outcome import Killed, Raised
from reference.world import launch
from tests.support.answers import answer
from tests.support.gpu import needs_gpu
from tests.support.runs import against_twin, end_of, run

SMALL = Case(
    model="convnet", trainers=3, steps=3, batch_size=4, image_w=8, image_h=8, num_classes=5, lr=0.1, timeout=20
)
SITE = "reference.batch_parameter_server:BatchUpdateParameterServer.update_and_fetch_model"
FAILED = f"{RoundFailed.__module__}.RoundFailed"


@pytest.fixture
def server() -> Iterator[BatchUpdateParameterServer]:
    """A server in this process, where its calls execute."""
    made = BatchUpdateParameterServer(SMALL)
    with closing(made.round):
        yield made


def right(server: BatchUpdateParameterServer) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Gradients and buffers that a trainer may report."""
    return [torch.ones_like(p) for p in server.model.parameters()], [b.clone() for b in server.model.buffers()]


def push(server: BatchUpdateParameterServer, trainer: str, *tensors: Any) -> Any:
    """Report as a trainer, and return the future of the reply."""
    rref: Any = SimpleNamespace(local_value=lambda: server)
    return server.update_and_fetch_model(rref, trainer, *(tensors or right(server)))


def test_the_first_model_is_a_copy(server: BatchUpdateParameterServer) -> None:
    """Erratum S2.5: the answer of `get_model` is sent while other trainers may already update."""
    first = server.get_model()
    then = [tensor.clone() for tensor in first.state_dict().values()]
    for tensor in server.model.state_dict().values():
        tensor.add_(1)
    assert [torch.equal(a, b) for a, b in zip(then, first.state_dict().values(), strict=True)] == [True] * 8


class LockNotes(dict[str, Any]):
    """A server's reports, which note whether its lock is held when one comes."""

    def __init__(self, lock: threading.Lock) -> None:
        self.lock = lock
        self.held: list[bool] = []

    def __setitem__(self, trainer: str, report: Any) -> None:
        self.held.append(self.lock.locked())
        super().__setitem__(trainer, report)

    def pop(self, trainer: str, *default: Any) -> Any:
        self.held.append(self.lock.locked())
        return super().pop(trainer, *default)


def test_reports_are_worked_on_under_the_lock_and_replies_made_outside_it(server: BatchUpdateParameterServer) -> None:
    """Errata S2.3 and S2.4: the published server holds the lock, and a callback that takes it hangs."""
    notes, replying = LockNotes(server.lock), list[bool]()
    server.reports = notes
    push(server, "trainer1").then(lambda _: replying.append(server.lock.locked()))
    push(server, "trainer2")
    push(server, "trainer3")
    assert notes.held == [True] * (3 + 3)
    assert replying == [False]


def test_each_step_is_saved_before_the_next_update(
    server: BatchUpdateParameterServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that answers the first round comes to save it only when the second round has ended."""
    update, updates, saved = server.update, list[int](), list[tuple[int, int]]()

    def count_and_update() -> None:
        update()
        updates.append(1)

    def report(*trainers: str) -> Any:
        first, *_ = (push(server, trainer) for trainer in trainers)
        return first

    monkeypatch.setattr(server, "update", count_and_update)
    monkeypatch.setattr("reference.batch_parameter_server.save", lambda step, **_: saved.append((step, len(updates))))
    report("trainer1").then(lambda _: report("trainer1", "trainer2", "trainer3"))
    report("trainer2", "trainer3")
    assert saved == [(1, 1), (2, 2)]


def refuse() -> None:
    raise ArithmeticError("no step today")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("shape", "round 0: the report of trainer2 failed: ValueError: tensor 0 has shape (1,), wanted (8, 3, 3, 3)"),
        ("count", "round 0: the report of trainer2 failed: ValueError: 4 tensors, wanted 5"),
        ("optimizer", "round 0: the report of trainer2 failed: ArithmeticError: no step today"),
    ],
)
def test_a_failing_last_arrival_ends_every_wait_at_once(
    kind: str, text: str, server: BatchUpdateParameterServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Erratum S2.6: with the published server the others wait until the RPC timeout. Late reports fail, too."""
    grads, buffers = right(server)
    waiting = [push(server, "trainer1"), push(server, "trainer3")]
    if kind == "optimizer":
        monkeypatch.setattr(server.optimizer, "step", refuse)
    bad = {"shape": [torch.ones(1), *grads[1:]], "count": grads[1:], "optimizer": grads}[kind]
    ends = [answer(push, server, "trainer2", bad, buffers), answer(push, server, "trainer1")]
    for end in (*ends, *(answer(future.wait) for future in waiting)):
        assert "RoundFailed" in f"{end.error}: {end.text}"
        assert text in end.text
        assert end.seconds < 10


def stop_itself(trainer: str, role: str) -> None:
    """Runs before RPC: this trainer stops itself when it is about to send its second report."""
    gradients, calls = Trainer.gradients, itertools.count()

    def stopping(self_: Trainer, *args: Any) -> torch.Tensor:
        if role == trainer and next(calls) == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
            threading.Event().wait()  # the signal may take a moment
        return gradients(self_, *args)

    Trainer.gradients = stopping  # type: ignore[method-assign, assignment]


@pytest.mark.usefixtures("forkserver")
def test_a_stopped_trainer_is_named_when_the_round_is_due() -> None:
    """Erratum S2.7: with the published server the others wait until the RPC timeout, and learn no name."""
    playing = roles(replace(SMALL, timeout=1.5))
    ps = end_of("ps", playing, limit=6, before=partial(stop_itself, "trainer2"))
    assert isinstance(ps, Raised)
    assert ps.type == FAILED
    assert ps.message == "round 1: nothing for 1.5 s from trainer2"


@pytest.mark.parametrize(
    ("moment", "nth", "further"),
    [
        ("step:1@trainer2", 2, ""),
        (f"call:{SITE}#1@trainer2", 1, ""),
        # The server's role does not end before the others have heard its error.
        ("step:1@trainer2", 2, f"; Delay site={SITE} role=trainer1 nth=2 side=reply seconds=0.6"),
    ],
    ids=["after a round", "before its first report", "the last answer is late"],
)
def test_a_dead_trainer_is_named(moment: str, nth: int, further: str, tmp_path: Path) -> None:
    """The others hear it as soon as its connection ends, long before the round is due, and no earlier report fails."""
    plan, text = Plan.parse(f"Crash role=trainer2 at={moment}{further}"), f"round {nth - 1}: trainer2 failed: "
    with scope(plan, tmp_path, record=True) as arguments, launch(roles(SMALL), **arguments) as world:
        outcomes = world.wait()
    ps, timeline = outcomes["ps"], read(tmp_path)
    assert isinstance(ps, Raised)
    assert ps.type == FAILED
    assert ps.message.startswith(text)
    assert outcomes["trainer2"] == Killed(9)
    (died,) = (each.time for each in timeline.of("fired") if each.details["kind"] == "Crash")
    for name in ("trainer1", "trainer3"):
        ends = timeline.of("ok", "fail", "info")
        *before, last = [each for each in ends if each.role == name and each.details["site"] == SITE]
        assert [each.event for each in before] == ["ok"] * (nth - 1), name
        # A report that waits gets torch's text only (`info`); one that comes later is answered by the error (`fail`).
        assert last.event in ("fail", "info"), name
        assert "RoundFailed" in last.details["error"]
        assert text in last.details["error"]
        assert last.time - died < 2.0, name


@needs_gpu
def test_it_equals_its_twin_on_cuda() -> None:
    assert against_twin(run(replace(SMALL, device="cuda"))).equal
