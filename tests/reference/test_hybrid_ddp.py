"""A remote embedding under replicated dense layers: against its twin, and with trainers lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from reference import hybrid_ddp
from reference.exact.exactness import NotExact
from reference.hybrid_ddp import Case, roles, train_locally, trainer_names
from reference.outcome import Killed, Raised
from reference.trace import compare
from reference.trace.trace import ulps
from reference.verify import judge
from reference.world import launch
from tests.support.roles_plain import listening_addresses
from tests.support.runs import against_twin, end_of, launch_and_wait, run, run_in

SMALL = Case(steps=4, batch_size=8, timeout=20)
EXACT = Case.exact(timeout=20)


@pytest.mark.parametrize("trainers", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equals_its_twin(trainers: int, dtype: str) -> None:
    """In rank order all bits are equal, for any number of trainers."""
    trace = run(replace(SMALL, trainers=trainers, dtype=dtype))
    assert against_twin(trace).equal
    assert len(trace.tensors) == (1 + 4 * trainers) + SMALL.steps * (2 + trainers * (1 + 2 * 4))


def test_two_trainers_commute_in_allreduce_and_four_are_within_the_bound() -> None:
    case = replace(SMALL, accumulation="allreduce")
    assert against_twin(run(case)).equal
    difference, verdict = judge(run(replace(case, trainers=4)), train_locally)
    assert verdict in ("equal", "within bound"), difference


def test_an_exact_case_that_is_too_large_is_refused() -> None:
    """From the fourth step on the products have too many digits; the sums over trainers alone would not show it."""
    with pytest.raises(
        NotExact, match=r"^step 2: addmm of \(4, 4\) and \(4, 8\) needs 61 bits, and 53 are exact; wanted "
    ):
        train_locally(replace(EXACT, batch_size=4, dim=4, hidden=4, bag=5, lr=0.125))


def test_replicas_stay_equal() -> None:
    tensors = run(replace(SMALL, trainers=3, accumulation="allreduce")).tensors
    for name, tensor in tensors.items():
        if "/trainer1/" in name:
            assert torch.equal(tensor, tensors[name.replace("trainer1", "trainer3")]), name


def test_one_world_can_run_several_cases() -> None:
    """Each run makes its process group anew and leaves none; nobody listens beyond loopback."""
    with launch(["ps", *trainer_names(SMALL)]) as world:
        assert compare(run_in(world, SMALL), run_in(world, SMALL)).equal
        for name in ("ps", *trainer_names(SMALL)):
            assert not world.call(name, torch.distributed.is_initialized)
            assert set(world.call(name, listening_addresses)) <= {"127.0.0.1", "::1"}


def test_training_lowers_the_loss() -> None:
    losses = run(Case(steps=200, lr=0.5, record="ends")).losses()
    assert sum(losses[-5:]) < sum(losses[:5]) * 0.75


# Failures


def in_its_second_loss(happen: Callable[[], object]) -> None:
    """Call ``happen`` in trainer2's second step, when the others wait for it in a collective."""
    right, calls = hybrid_ddp.loss_of, list[None]()

    def wrong(*args: Any) -> torch.Tensor:
        calls.append(None)
        if len(calls) == 2:
            happen()
        return right(*args)

    hybrid_ddp.loss_of = wrong  # type: ignore[assignment]


def stumble() -> None:
    raise KeyError("planted")


def raise_in_trainer2(role: str) -> None:
    if role == "trainer2":
        in_its_second_loss(stumble)


def kill_trainer2(role: str) -> None:
    if role == "trainer2":
        in_its_second_loss(lambda: os.kill(os.getpid(), signal.SIGKILL))


def stop_trainer2(role: str) -> None:
    if role == "trainer2":
        in_its_second_loss(lambda: os.kill(os.getpid(), signal.SIGSTOP))


@pytest.mark.parametrize("trainers", [2, 3])
@pytest.mark.parametrize(("fault", "cause"), [(raise_in_trainer2, "KeyError('planted')"), (kill_trainer2, "")])
def test_a_lost_trainer_ends_everybody(fault: Callable[[str], None], cause: str, trainers: int) -> None:
    """They end well before any limit: the timeout is longer than the world's deadline."""
    outcomes = launch_and_wait(replace(SMALL, trainers=trainers, timeout=100), before=fault, deadline=60)
    ps = outcomes["ps"]
    assert isinstance(ps, Raised)
    assert ps.type.endswith("StepFailed")
    assert ps.message.startswith("step 1: ")
    assert f"trainer2 failed: {cause}" in ps.message
    for name in trainer_names(replace(SMALL, trainers=trainers)):
        assert isinstance(outcomes[name], Raised | Killed), outcomes[name]


@pytest.mark.long
def test_a_stopped_trainer_is_named() -> None:
    ps = end_of("ps", roles(replace(SMALL, timeout=1)), before=stop_trainer2, limit=20)
    assert isinstance(ps, Raised)
    assert "trainer1 failed: " in ps.message
    assert ps.message.endswith("nothing for 6.0 s from trainer2")


@pytest.mark.parametrize("trainers", [1, 2])
def test_zeros_keep_their_sign(trainers: int) -> None:
    """A batch's hidden unit is dead: its weights' gradients are -0.0 under DDP's allreduce, and in the twin."""
    sizes: dict[str, Any] = {"rows": 2, "dim": 2, "hidden": 2, "num_classes": 2, "batch_size": 1, "bag": 1}
    exact: dict[str, Any] = {"arithmetic": "exact", "dtype": "float64", "lr": 0.5}
    case = Case(**sizes, **exact, trainers=trainers, accumulation="allreduce", steps=1, timeout=20)
    trace, twin = run(case), train_locally(case)
    for name, tensor in twin.tensors.items():
        assert ulps(trace.tensors[name], tensor) == 0, name
    zeros = trace.tensors["0000/gradient/trainer1/0.weight"]
    assert trainers > 1 or (zeros.signbit() & (zeros == 0)).any()
