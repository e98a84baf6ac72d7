"""The sharded parameter server: what each server holds, and servers and trainers that fail it."""

from __future__ import annotations

import itertools
import os
import re
import signal
import threading
from contextlib import closing
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from reference.batch_parameter_server import RoundFailed, initial_model
from reference.outcome import Overdue, Raised
from reference.sharded_parameter_server import Case, ParameterServerShard, Trainer
from reference.trace import CaseError
from reference.training.placement import partition
from tests.support.gpu import needs_gpu
from tests.support.runs import against_twin, launch_and_wait, run

SMALL = Case(
    servers=3, model="convnet", trainers=3, batch_size=4, image_w=8, image_h=8, num_classes=5, lr=0.1, timeout=20
)
FAILED = f"{RoundFailed.__module__}.RoundFailed"


def test_each_server_holds_its_part_and_is_sent_no_more() -> None:
    held = []
    for index in range(3):
        server = ParameterServerShard(SMALL, index)
        with closing(server.round):
            held.append(set(server.fetch()))
    assert held == [set(part) for part in partition(initial_model(SMALL), 3)]
    trainer = Trainer(SMALL, "trainer1", [])
    trainer.gradients(trainer.model, *next(trainer.get_next_batch()))
    assert [{*grads, *buffers} for grads, buffers in map(trainer.report, trainer.parts)] == held


def test_a_trainers_first_fetch_has_the_cases_limit() -> None:
    """RPC's own is 60 s, whatever the case says."""
    reply, limits = torch.futures.Future[Any](), list[float]()
    reply.set_result(dict(initial_model(SMALL).state_dict()))

    def rpc_async(timeout: float = 60.0) -> Any:
        limits.append(timeout)
        return SimpleNamespace(fetch=lambda: reply)

    rref: Any = SimpleNamespace(owner_name=lambda: "ps1", rpc_async=rpc_async)
    Trainer(SMALL, "trainer1", [rref]).fetch()
    assert limits == [20.0]


def test_tensors_of_other_names_are_refused_and_harm_nobody() -> None:
    """Those of another shard, and too few."""
    server = ParameterServerShard(replace(SMALL, model="mlp", servers=2, trainers=1), 0)
    rref, push = SimpleNamespace(local_value=lambda: server), ParameterServerShard.push_and_fetch
    with closing(server.round):
        for wrong in ({"1.bias": torch.ones(64)}, {}):
            with pytest.raises(KeyError, match=r"^'1\.weight'$"):
                push(rref, "trainer1", wrong, {})
        right = {name: torch.ones_like(each) for name, each in server.model.named_parameters()}
        assert list(push(rref, "trainer1", right, {}).wait()) == ["1.weight"]


def doom(number: signal.Signals, role: str) -> None:
    """A ``before``: ps2 is sent a signal at its last report of the second round.

    By then every trainer has got the server's replies of the first round, and goes on to the second one.
    """
    if role != "ps2":
        return
    update, calls = ParameterServerShard.update, itertools.count()

    def doomed(*args: Any) -> Any:
        if next(calls) == 1:
            os.kill(os.getpid(), number)
            threading.Event().wait()  # the signal may take a moment
        return update(*args)

    ParameterServerShard.update = doomed  # type: ignore[method-assign, assignment]


def test_a_killed_server_is_named_at_once() -> None:
    """Long before the round's limit of 20 s."""
    ps1 = launch_and_wait(SMALL, before=partial(doom, signal.SIGKILL), deadline=8)["ps1"]
    assert isinstance(ps1, Raised)
    assert ps1.type == FAILED
    assert re.match(r"round \d: trainer\d failed: .*ps2: ", ps1.message), ps1.message


@pytest.mark.long
def test_a_stopped_server_is_named_by_its_own_end() -> None:
    """The first server knows only that no trainer comes, because all wait for the stopped one."""
    outcomes = launch_and_wait(replace(SMALL, timeout=3), before=partial(doom, signal.SIGSTOP))
    ps1, ps2 = outcomes["ps1"], outcomes["ps2"]
    assert isinstance(ps1, Raised)
    assert ps1.type == FAILED
    assert ps1.message == "round 2: nothing for 3.0 s from trainer1, trainer2, trainer3"
    assert isinstance(ps2, Overdue)
    assert "was stopped" in ps2.why


def test_more_servers_than_parameters_are_refused() -> None:
    wanted = r"^sharded_parameter_server: servers must be at most 4, the parameters of mlp, got 5$"
    with pytest.raises(CaseError, match=wanted):
        replace(SMALL, model="mlp", servers=5)


@needs_gpu
def test_it_equals_its_twin_on_cuda() -> None:
    assert against_twin(run(replace(SMALL, device="cuda"))).equal
