"""The batch-updating parameter server: its reports, and trainers that fail. tests/properties has runs and twins."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.distributed.rpc as rpc
from torch.distributed.rpc import RRef

from faults.ledger import read
from faults.plan import Plan
from faults.run.runs import scope
from reference.batch_parameter_server import (
    BatchUpdateParameterServer,
    Case,
    RoundFailed,
    Trainer,
    initial_model,
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


def report(case: Case) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    model = initial_model(case)
    return [torch.ones_like(p) for p in model.parameters()], [b.clone() for b in model.buffers()]


def send(rref: RRef[Any], trainer: str, *tensors: Any) -> torch.futures.Future[Any]:
    method: Any = BatchUpdateParameterServer.update_and_fetch_model
    return rpc.rpc_async("ps", method, args=(rref, trainer, *tensors))  # type: ignore[no-any-return]


def test_the_first_model_is_a_copy() -> None:
    """Erratum S2.5: the answer of `get_model` is sent while other trainers may already update."""
    server = BatchUpdateParameterServer(replace(SMALL, trainers=1))
    try:
        first = server.get_model()
        then = [tensor.clone() for tensor in first.state_dict().values()]
        for tensor in server.model.state_dict().values():
            tensor.add_(1)
        assert [torch.equal(a, b) for a, b in zip(then, first.state_dict().values(), strict=True)] == [True] * 8
    finally:
        server.round.close()


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


def lock_in_a_round(case: Case) -> tuple[list[bool], list[bool]]:
    """Runs on ps: whether the lock is held where a report changes the server, and while a round's replies are made."""
    server, in_callbacks = BatchUpdateParameterServer(case), list[bool]()
    server.reports = notes = LockNotes(server.lock)
    rref = RRef(server)
    first = server.update_and_fetch_model(rref, "trainer1", *report(case))
    first.then(lambda _: in_callbacks.append(server.lock.locked()))
    torch.futures.wait_all([send(rref, name, *report(case)) for name in ("trainer2", "trainer3")])
    server.round.close()
    return notes.held, in_callbacks


def test_reports_are_worked_on_under_the_lock_and_replies_made_outside_it() -> None:
    """Errata S2.3 and S2.4: the published server holds the lock, and a callback that takes it hangs."""
    with launch(["ps"]) as world:
        working, replying = world.call("ps", lock_in_a_round, SMALL)
    assert working == [True] * (3 + 3)
    assert replying == [False]


def saves_of_two_rounds(case: Case) -> list[tuple[int, int]]:
    """Runs on ps: each step that was saved, and the number of updates by then. The thread that answers the first round
    goes on when the second round's update has been made, and before that round is answered."""
    server, saved, updates = BatchUpdateParameterServer(case), list[tuple[int, int]](), list[int]()
    rref, updated, answered = RRef(server), threading.Event(), threading.Event()
    update, swap_future = server.update, server.round.swap_future

    def play_round() -> None:
        for name in server.trainers:
            server.update_and_fetch_model(rref, name, *report(case)).then(next_round)

    def next_round(_: object) -> None:
        if not second.is_alive() and len(updates) == 1:
            second.start()
            assert updated.wait(20)

    def count_and_update() -> None:
        update()
        updates.append(1)

    def wait_and_swap() -> torch.futures.Future[Any]:
        if len(updates) == 2:
            updated.set()
            assert answered.wait(20)
        return swap_future()

    second = threading.Thread(target=play_round)
    server.update, server.round.swap_future = count_and_update, wait_and_swap  # type: ignore[method-assign]
    with patch("reference.batch_parameter_server.save", lambda step, **_: saved.append((step, len(updates)))):
        play_round()
        answered.set()
        second.join(20)
    server.round.close()
    return saved


def test_each_step_is_saved_before_the_next_update() -> None:
    with launch(["ps"]) as world:
        assert world.call("ps", saves_of_two_rounds, SMALL) == [(1, 1), (2, 2)]


def bad_reports(case: Case, kind: str) -> list[str]:
    """Runs on ps: how each trainer's call ends if trainer2's, which comes last, is bad."""
    server = BatchUpdateParameterServer(case)
    rref = RRef(server)
    grads, buffers = report(case)
    waiting = [server.update_and_fetch_model(rref, name, grads, buffers) for name in ("trainer1", "trainer3")]
    if kind == "optimizer":
        server.optimizer.step = _refuse  # type: ignore[method-assign, assignment]
    bad = {"shape": [torch.ones(1), *grads[1:]], "count": grads[1:], "optimizer": grads}[kind]
    waiting.append(send(rref, "trainer2", bad, buffers))
    ends = [answer(future.wait).text for future in waiting]
    ends.append(answer(send(rref, "trainer1", grads, buffers).wait).text)
    server.round.close()
    return ends


def _refuse() -> None:
    raise ArithmeticError("no step today")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("shape", "round 0: the report of trainer2 failed: ValueError: tensor 0 has shape (1,), wanted (8, 3, 3, 3)"),
        ("count", "round 0: the report of trainer2 failed: ValueError: 4 tensors, wanted 5"),
        ("optimizer", "round 0: the report of trainer2 failed: ArithmeticError: no step today"),
    ],
)
def test_a_failing_last_arrival_ends_every_wait_at_once(kind: str, text: str) -> None:
    """Erratum S2.6: with the published server the others wait until the RPC timeout. Late reports fail, too."""
    with launch(["ps"]) as world:
        ends = world.call("ps", bad_reports, SMALL, kind, deadline=15)
    assert len(ends) == 4
    for end in ends:
        assert text in end
        assert "RoundFailed" in end


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
@pytest.mark.parametrize(("trainers", "stopped", "limit"), [(3, "trainer2", 6), (1, "trainer1", 15)])
def test_a_stopped_trainer_is_named_when_the_round_is_due(trainers: int, stopped: str, limit: float) -> None:
    """Erratum S2.7: with the published server the others wait until the RPC timeout, and learn no name. Of a single
    trainer there is no other whose call could end with the round."""
    case = replace(SMALL, trainers=trainers, timeout=1.5)
    ps = end_of("ps", roles(case), limit=limit, before=partial(stop_itself, stopped))
    assert isinstance(ps, Raised)
    assert ps.type == FAILED
    assert ps.message == f"round 1: nothing for 1.5 s from {stopped}"


@pytest.mark.parametrize(
    ("moment", "nth", "further"),
    [
        ("step:1@trainer2", 2, ""),
        (f"call:{SITE}#1@trainer2", 1, ""),
        (f"call:{SITE}#3@trainer2", 3, ""),
        # The server's role does not end before the others have heard its error.
        ("step:1@trainer2", 2, f"; Delay site={SITE} role=trainer1 nth=2 side=reply seconds=0.6"),
    ],
    ids=["after a round", "before its first report", "before its last report", "the last answer is late"],
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
