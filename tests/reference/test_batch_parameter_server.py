"""The batch-updating parameter server: its twin, its reports, and trainers that fail."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import torch.distributed.rpc as rpc
from torch.distributed.rpc import RRef

from reference.batch_parameter_server import (
    BatchUpdateParameterServer,
    Case,
    RoundFailed,
    Trainer,
    initial_model,
    roles,
    run_ps,
    trainer_names,
)
from reference.outcome import Raised
from reference.world import launch
from tests.support.runs import against_twin, end_of, run

SMALL = Case(
    model="convnet", trainers=3, steps=3, batch_size=4, image_w=8, image_h=8, num_classes=5, lr=0.1, timeout=20
)
FAILED = f"{RoundFailed.__module__}.RoundFailed"


@pytest.mark.parametrize("model", ["mlp", "convnet"])
@pytest.mark.parametrize("trainers", [1, 2, 5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equals_its_twin(model: str, trainers: int, dtype: str) -> None:
    trace = run(replace(SMALL, model=model, trainers=trainers, dtype=dtype))
    assert against_twin(trace).equal


@pytest.mark.long
def test_resnet50_equals_its_twin() -> None:
    """The real model at the tutorial's image size, 3 trainers, 2 rounds of 2 images."""
    trace = run(Case(trainers=3, steps=2, batch_size=2), deadline=120)
    assert against_twin(trace).equal
    assert sum(tensor.numel() for name, tensor in trace.tensors.items() if name.startswith("initial")) == 23569502


def test_training_lowers_the_loss() -> None:
    losses = run(replace(SMALL, steps=40, record="ends")).losses()
    assert losses[-1] < losses[0] * 0.8


def evaluated(case: Case) -> tuple[int, float]:
    """Runs on ps: the batch norm statistics of its own model after training."""
    servers, init = [], BatchUpdateParameterServer.__init__

    def noting(self: BatchUpdateParameterServer, case: Case) -> None:
        servers.append(self)
        init(self, case)

    BatchUpdateParameterServer.__init__ = noting  # type: ignore[assignment, method-assign]
    run_ps(case)
    norm: Any = servers[0].model[1]  # type: ignore[index]
    return int(norm.num_batches_tracked), float(norm.running_var.sub(1).abs().max())


def test_the_servers_batch_norm_has_statistics() -> None:
    """Erratum S2.8: in the published form 0 batches tracked and a variance of 1."""
    with launch(["ps", *trainer_names(SMALL)]) as world:
        tracked, moved = world.call("ps", evaluated, SMALL)
    assert tracked == SMALL.steps
    assert moved > 0.01


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


def locked_while_reporting(case: Case) -> list[bool]:
    """Runs on ps: whether the lock is held where a report changes the server."""
    server = BatchUpdateParameterServer(case)
    server.reports = notes = LockNotes(server.lock)
    torch.futures.wait_all([send(RRef(server), name, *report(case)) for name in server.trainers])
    server.round.close()
    return notes.held


def test_a_report_is_worked_on_under_the_lock() -> None:
    with launch(["ps"]) as world:
        assert world.call("ps", locked_while_reporting, SMALL) == [True] * (3 + 3)


class Announcing(list[str]):
    """A barrier that lets a test wait until a trainer has joined a round."""

    def __init__(self) -> None:
        self.came = threading.Semaphore(0)

    def append(self, trainer: str) -> None:
        super().append(trainer)
        self.came.release()

    def wait_for(self, count: int) -> None:
        for _ in range(count):
            assert self.came.acquire(timeout=10)


def announcing(server: BatchUpdateParameterServer) -> Announcing:
    server.round.joined = arrivals = Announcing()
    return arrivals


def lock_is_free_in_callbacks(case: Case) -> list[bool]:
    """Runs on ps: whether the lock is free while the replies of a round are made."""
    server = BatchUpdateParameterServer(case)
    seen: list[bool] = []
    rref = RRef(server)
    first = server.update_and_fetch_model(rref, "trainer1", *report(case))
    first.then(lambda _: seen.append(server.lock.locked()))
    torch.futures.wait_all([send(rref, name, *report(case)) for name in ("trainer2", "trainer3")])
    server.round.close()
    return seen


def test_replies_are_made_outside_the_lock() -> None:
    """Errata S2.3 and S2.4: the published server holds the lock, and a callback that takes it hangs."""
    with launch(["ps"]) as world:
        assert world.call("ps", lock_is_free_in_callbacks, SMALL) == [False]


def bad_reports(case: Case, kind: str) -> list[str]:
    """Runs on ps: how each trainer's call ends if trainer2's, which comes last, is bad."""
    server = BatchUpdateParameterServer(case)
    came = announcing(server)
    rref = RRef(server)
    grads, buffers = report(case)
    waiting = [send(rref, name, grads, buffers) for name in ("trainer1", "trainer3")]
    came.wait_for(2)
    if kind == "shape":
        waiting.append(send(rref, "trainer2", [torch.ones(1), *grads[1:]], buffers))
    elif kind == "count":
        waiting.append(send(rref, "trainer2", grads[1:], buffers))
    elif kind == "optimizer":
        server.optimizer.step = _refuse  # type: ignore[method-assign, assignment]
        waiting.append(send(rref, "trainer2", grads, buffers))
    ends = [_end(future) for future in waiting]
    ends.append(_end(send(rref, "trainer1", grads, buffers)))
    server.round.close()
    return ends


def _refuse() -> None:
    raise ArithmeticError("no step today")


def _end(future: torch.futures.Future[Any]) -> str:
    try:
        return type(future.wait()).__name__
    except RuntimeError as error:
        return str(error)


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


@dataclass(frozen=True)
class Stopping:
    """A ``before``: one trainer stops itself when it is about to send its second report."""

    trainer: str

    def __call__(self, role: str) -> None:
        if role != self.trainer:
            return
        gradients, calls = Trainer.gradients, itertools.count()

        def stopping(self_: Trainer, *args: Any) -> torch.Tensor:
            if next(calls) == 1:
                os.kill(os.getpid(), signal.SIGSTOP)
                threading.Event().wait()  # the signal may take a moment
            return gradients(self_, *args)

        Trainer.gradients = stopping  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize(("trainers", "stopped", "limit"), [(3, "trainer2", 6), (1, "trainer1", 15)])
def test_a_stopped_trainer_is_named_when_the_round_is_due(trainers: int, stopped: str, limit: float) -> None:
    """Erratum S2.7: with the published server the others wait until the RPC timeout, and learn no name. Of a single
    trainer there is no other whose call could end with the round."""
    case = replace(SMALL, trainers=trainers, timeout=1.5)
    ps = end_of("ps", roles(case), limit=limit, before=Stopping(stopped))
    assert isinstance(ps, Raised)
    assert ps.type == FAILED
    assert ps.message == f"round 1: nothing for 1.5 s from {stopped}"


def test_a_trainer_missing_from_the_world_is_named() -> None:
    with launch(["ps", "trainer1"]) as world:
        outcomes = world.run({name: role for name, role in roles(SMALL).items() if name in ("ps", "trainer1")})
    assert isinstance(outcomes["ps"], Raised)
    assert "could not find destination name trainer2" in outcomes["ps"].message or outcomes["ps"].type == FAILED


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_it_equals_its_twin_on_cuda() -> None:
    trace = run(replace(SMALL, device="cuda"))
    assert against_twin(trace).equal
