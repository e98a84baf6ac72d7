"""The asynchronous parameter server: its twin, and workers that fail."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
import torch
from torch.distributed.rpc import RRef

from reference import parameter_server
from reference.outcome import Raised
from reference.parameter_server import Case, ParameterServer, roles, worker_names
from reference.rpc.worker_calls import MissingWorker
from reference.trace import TraceError
from reference.world import launch
from tests.support.gpu import needs_gpu
from tests.support.runs import against_twin, end_of, run, run_in, twin


def test_training_lowers_the_loss() -> None:
    losses = twin(Case(steps=300, record="ends")).losses()
    assert losses[-1] < losses[0] / 1000


def test_a_twin_of_several_workers_needs_their_order() -> None:
    with pytest.raises(TraceError, match=r"^with several workers the order of events decides bits: wanted"):
        twin(Case(workers=2))


def apply_many(workers: int, rounds: int) -> tuple[float, float]:
    """Runs on ps: ``rounds`` times as many calls at once, from the RPC threads of this very role, as workers."""
    case = Case(steps=rounds, workers=workers, lr=1.0, record="ends", arithmetic="exact", dtype="float64")
    server = ParameterServer(case)
    with torch.no_grad():
        for parameter in server.model.parameters():
            parameter.zero_()
    rref = RRef(server)
    ones = {"weight": torch.ones(1, 10, dtype=torch.float64), "bias": torch.ones(1, dtype=torch.float64)}
    for n in range(1, rounds + 1):
        each = [rref.rpc_async().apply_gradients(name, n, ones, torch.tensor(0.0)) for name in worker_names(case)]
        assert torch.futures.wait_all(each) == [True] * workers
    return server.model.weight[0, 0].item(), server.model.bias[0].item()


def test_calls_at_once_lose_no_update() -> None:
    """Erratum S1.13: the published server loses updates or dies of a signal."""
    with launch(["ps"]) as world:
        assert world.call("ps", apply_many, 200, 3) == (-600.0, -600.0)


def snapshots_are_copies() -> list[bool]:
    """Runs on ps: whether a pull's tensors stay the same when the model changes."""
    server = ParameterServer(Case())
    rrefs = ParameterServer.get_parameter_rrefs(RRef(server), "worker1", 1)
    before = [rref.to_here().clone() for rref in rrefs]
    gradients = {name: torch.ones_like(parameter) for name, parameter in server.model.named_parameters()}
    server.apply_gradients("worker1", 1, gradients, torch.tensor(0.0))
    unchanged = [torch.equal(rref.to_here(), old) for rref, old in zip(rrefs, before, strict=True)]
    moved = [not torch.equal(p, old) for p, old in zip(server.model.parameters(), before, strict=True)]
    return unchanged + moved


def test_pulled_parameters_are_copies_of_one_moment() -> None:
    with launch(["ps"]) as world:
        assert world.call("ps", snapshots_are_copies) == [True] * 4


def test_an_unknown_parameter_is_refused_and_nothing_applied() -> None:
    server = ParameterServer(Case())
    before = [parameter.clone() for parameter in server.model.parameters()]
    with closing(server.calls), pytest.raises(KeyError, match=r"^'head'$"):
        server.apply_gradients("worker1", 1, {"weight": torch.ones(1, 10), "head": torch.ones(1)}, torch.tensor(0.0))
    assert all(torch.equal(a, b) for a, b in zip(before, server.model.parameters(), strict=True))
    assert server.updates == 0


def sleep() -> None:
    """Runs on a worker: it never does anything. As ps it serves calls, but makes no server."""
    threading.Event().wait()


@pytest.mark.usefixtures("forkserver")
def test_a_missing_worker_is_named() -> None:
    case = Case(workers=2, steps=3, timeout=1.5)
    ps = end_of("ps", {**roles(case), "worker2": sleep}, limit=4)
    assert isinstance(ps, Raised)
    assert ps.type == f"{MissingWorker.__module__}.MissingWorker"
    assert ps.message == "nothing for 1.5 s from worker2 (sent 0 of 3)"


def answer_no_pull() -> None:
    """Runs on ps: its server is there, and busy for ever."""
    server = ParameterServer(Case())
    with server.lock:
        parameter_server.global_ps_rref.set_result(RRef(server))
        sleep()


@pytest.mark.usefixtures("forkserver")
@pytest.mark.parametrize(
    ("ps", "timeout", "said"),
    [(sleep, 1, "no parameter server on this role after 1.0 s"), (answer_no_pull, 3, "timeout (3000 ms)")],
)
def test_a_server_that_never_comes_or_answers_no_pull_ends_its_workers_wait(
    ps: Callable[[], None], timeout: float, said: str
) -> None:
    case = Case(timeout=timeout)
    outcome = end_of("worker1", {**roles(case), "ps": ps}, limit=15)
    assert isinstance(outcome, Raised)
    assert said in outcome.message


@needs_gpu
def test_it_equals_its_twin_on_cuda() -> None:
    assert against_twin(run(Case(workers=2, device="cuda"))).equal


class Asked(Future[Any]):
    """Lets a test wait until a call waits."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = threading.Semaphore(0)

    def result(self, timeout: float | None = None) -> Any:
        if timeout:
            self.waits.release()
        return super().result(timeout)


def test_calls_that_come_too_early_are_answered_when_the_server_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Erratum S1.8."""
    published, server = Asked(), object()
    monkeypatch.setattr(parameter_server, "global_ps_rref", published)
    with ThreadPoolExecutor(3) as threads:
        early = [threads.submit(parameter_server.get_parameter_server, 20.0) for _ in range(3)]
        for _ in early:
            assert published.waits.acquire(timeout=10)
        published.set_result(server)
        assert [each.result(20) for each in early] == [server] * 3
    assert parameter_server.get_parameter_server(0.0) is server


def test_a_worker_that_has_done_all_needs_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on after its last step. The server, which waits for nothing then, may be gone."""
    case = Case(steps=3)
    monkeypatch.setattr("reference.trace.checkpoint.resume", lambda **owners: case.steps)
    monkeypatch.setattr(parameter_server, "rpc_sync", None)
    parameter_server.run_worker(case, "worker1")


def has_a_server() -> bool:
    """Runs on ps."""
    return parameter_server.global_ps_rref.done()


def test_the_module_forgets_its_server() -> None:
    with launch(["ps", "worker1"]) as world:
        assert against_twin(run_in(world, Case(steps=1))).equal
        assert not world.call("ps", has_a_server)
