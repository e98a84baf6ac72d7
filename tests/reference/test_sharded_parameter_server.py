"""The sharded parameter server: the bits of the unsharded one, and servers and trainers that fail it."""

from __future__ import annotations

import itertools
import os
import re
import signal
import threading
from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest
import torch
import torch.distributed.rpc as rpc
from torch.distributed.rpc import RRef

from reference import batch_parameter_server
from reference.batch_parameter_server import RoundFailed, initial_model, trainer_names
from reference.outcome import Overdue, Raised, Returned
from reference.sharded_parameter_server import Case, ParameterServerShard, Trainer, roles, server_names
from reference.trace import CaseError, Trace
from reference.training.placement import partition
from reference.world import launch
from tests.support.runs import against_twin, launch_and_wait, run

SMALL = Case(
    servers=3, model="convnet", trainers=3, batch_size=4, image_w=8, image_h=8, num_classes=5, lr=0.1, timeout=20
)
EXACT = replace(SMALL, model="mlp", trainers=4, lr=0.125, momentum=0.5, dtype="float64", arithmetic="exact")
FAILED = f"{RoundFailed.__module__}.RoundFailed"


def unsharded(case: Case, **changes: Any) -> batch_parameter_server.Case:
    """The same case for one server that holds everything."""
    values = {name: value for name, value in asdict(case).items() if name != "servers"}
    return batch_parameter_server.Case(**{**values, **changes})


def same(ours: Trace, theirs: Trace) -> list[str]:
    """The names of tensors that differ or are missing on one side."""
    a, b = ours.tensors, theirs.tensors
    return [name for name in a.keys() | b.keys() if name not in a or name not in b or not torch.equal(a[name], b[name])]


@pytest.mark.parametrize("servers", [1, 2, 3, 4])
def test_exact_arithmetic_has_the_bits_of_the_unsharded_server(servers: int) -> None:
    """This holds even for a server that adds in order of arrival, except for its record of that order."""
    trace = run(replace(EXACT, servers=servers))
    assert same(trace, run(unsharded(EXACT))) == []
    arrival = run(unsharded(EXACT, accumulation="arrival"))
    assert set(same(trace, arrival)) == {f"{step:04d}/arrivals" for step in range(EXACT.steps)}


@pytest.mark.parametrize("servers", [1, 2, 5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_natural_arithmetic_has_the_bits_of_the_unsharded_server_in_rank_order(servers: int, dtype: str) -> None:
    case = replace(SMALL, servers=servers, dtype=dtype)
    trace = run(case)
    assert against_twin(trace).equal
    assert same(trace, run(unsharded(case))) == []


@pytest.mark.parametrize("trainers", [1, 2, 5])
def test_equals_its_twin(trainers: int) -> None:
    trace = run(replace(SMALL, trainers=trainers, momentum=0.9))
    assert against_twin(trace).equal


@pytest.mark.long
def test_resnet50_equals_its_twin() -> None:
    trace = run(Case(trainers=2, steps=2, batch_size=2, image_w=32, image_h=32, record="ends"), deadline=150)
    assert against_twin(trace).equal


def test_training_lowers_the_loss() -> None:
    losses = run(replace(SMALL, steps=40, record="ends")).losses()
    assert losses[-1] < losses[0] * 0.8


def test_only_the_first_server_returns_a_trace() -> None:
    with launch(roles(SMALL)) as world:
        outcomes = world.wait()
    assert list(outcomes) == [*server_names(SMALL), *trainer_names(SMALL)]
    values = {name: outcome.value for name, outcome in outcomes.items() if isinstance(outcome, Returned)}
    assert isinstance(values.pop("ps1"), Trace)
    assert values == dict.fromkeys(["ps2", "ps3", *trainer_names(SMALL)])


def holdings(case: Case) -> list[list[str]]:
    """Runs on ps1: what each server says it has."""
    rrefs = [rpc.remote(name, ParameterServerShard, args=(case, i)) for i, name in enumerate(server_names(case))]
    try:
        return [list(rref.rpc_sync().fetch()) for rref in rrefs]
    finally:
        for rref in rrefs:
            rref.rpc_sync().recorded()


def test_each_server_holds_its_part_and_no_more() -> None:
    with launch(server_names(SMALL)) as world:
        held = world.call("ps1", holdings, SMALL)
    assert [set(part) for part in held] == [set(part) for part in partition(initial_model(SMALL), 3)]


def misnamed(case: Case) -> list[str]:
    """Runs on ps1: pushes of another shard's tensors, of too few, and then of the right ones."""
    rref = RRef(ParameterServerShard(case, 0))
    parts = [Trainer(case, "trainer1", ()).parts[index] for index in (1, 0)]
    state = initial_model(case).state_dict()
    pushes = [{name: state[name] for name in part} for part in parts]
    method: Any = ParameterServerShard.push_and_fetch
    ends = []
    for grads in (pushes[0], {}, pushes[1]):
        future = rpc.rpc_async("ps1", method, args=(rref, "trainer1", grads, {}))
        try:
            ends.append(", ".join(future.wait()))
        except RuntimeError as error:
            ends.append(str(error))
    rref.local_value().round.close()
    return ends


def test_tensors_of_other_names_are_refused_and_harm_nobody() -> None:
    case = replace(SMALL, model="mlp", servers=2, trainers=1)
    with launch(["ps1"]) as world:
        another, none, right = world.call("ps1", misnamed, case)
    for refused in (another, none):
        assert re.search(r"KeyError\(\W*1\.weight", refused), refused
    assert right == "1.weight"


@dataclass(frozen=True)
class Doomed:
    """A ``before``: ps2 is sent a signal at its last report of the second round.

    By then every trainer has got the server's replies of the first round, and goes on to the second one.
    """

    signal: int

    def __call__(self, role: str) -> None:
        if role != "ps2":
            return
        update, calls = ParameterServerShard.update, itertools.count()

        def doomed(*args: Any) -> Any:
            if next(calls) == 1:
                os.kill(os.getpid(), self.signal)
                threading.Event().wait()  # the signal may take a moment
            return update(*args)

        ParameterServerShard.update = doomed  # type: ignore[method-assign, assignment]


def test_a_killed_server_is_named_at_once() -> None:
    """Long before the round's limit of 20 s."""
    ps1 = launch_and_wait(SMALL, before=Doomed(signal.SIGKILL), deadline=8)["ps1"]
    assert isinstance(ps1, Raised)
    assert ps1.type == FAILED
    assert re.match(r"round \d: trainer\d failed: .*ps2: ", ps1.message), ps1.message


@pytest.mark.long
def test_a_stopped_server_is_named_by_its_own_end() -> None:
    """The first server knows only that no trainer comes, because all wait for the stopped one."""
    with launch(roles(replace(SMALL, timeout=3)), before=Doomed(signal.SIGSTOP), deadline=60) as world:
        outcomes = world.wait()
    ps1, ps2 = outcomes["ps1"], outcomes["ps2"]
    assert isinstance(ps1, Raised)
    assert ps1.type == FAILED
    assert ps1.message == "round 2: nothing for 3.0 s from trainer1, trainer2, trainer3"
    assert isinstance(ps2, Overdue)
    assert "was stopped" in ps2.why


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"servers": 6}, "servers must be at most 5, the parameters of convnet, got 6"),
        ({"model": "mlp", "servers": 5}, "servers must be at most 4, the parameters of mlp, got 5"),
    ],
)
def test_more_servers_than_parameters_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CaseError) as caught:
        replace(SMALL, **changes)
    assert str(caught.value) == f"sharded_parameter_server: {message}"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_it_equals_its_twin_on_cuda() -> None:
    trace = run(replace(SMALL, device="cuda"))
    assert against_twin(trace).equal
