"""A remote embedding under replicated dense layers: equal replicas, and trainers lost."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from reference import hybrid_ddp
from reference.exact.exactness import NotExact
from reference.hybrid_ddp import Case, roles, train_locally, trainer_names
from reference.outcome import Killed, Raised
from reference.rpc.ddp import backward
from tests.support.roles_plain import kill_oneself
from tests.support.runs import end_of, launch_and_wait, run

SMALL = Case(steps=4, batch_size=8, timeout=20)


def test_an_exact_case_that_is_too_large_is_refused() -> None:
    """From the fourth step on the products have too many digits; the sums over trainers alone would not show it."""
    told = r"^step 2: addmm of \(4, 4\) and \(4, 8\) needs 61 bits, and 53 are exact; wanted "
    with pytest.raises(NotExact, match=told):
        train_locally(Case.exact(batch_size=4, dim=4, hidden=4, bag=5, lr=0.125))


def test_replicas_stay_equal() -> None:
    tensors = run(replace(SMALL, trainers=3, accumulation="allreduce")).tensors
    first = [name for name in tensors if "/trainer1/" in name]
    assert first
    for name in first:
        assert torch.equal(tensors[name], tensors[name.replace("trainer1", "trainer3")]), name


# Failures


def in_its_second_loss(happen: Callable[[], object], role: str) -> None:
    """Runs before RPC: call ``happen`` in trainer2's second step, when the others wait for it in a collective."""
    right, calls = hybrid_ddp.loss_of, itertools.count(1)

    def wrong(*args: Any) -> torch.Tensor:
        if role == "trainer2" and next(calls) == 2:
            happen()
        return right(*args)

    hybrid_ddp.loss_of = wrong  # type: ignore[assignment]


def after_its_second_backward(happen: Callable[[], object], role: str) -> None:
    """Runs before RPC: call ``happen`` in trainer2's second step, when the others wait for it in the server's step."""
    right, calls = backward, itertools.count(1)

    def wrong(*args: Any) -> None:
        right(*args)
        if role == "trainer2" and next(calls) == 2:
            happen()

    hybrid_ddp.backward = wrong  # type: ignore[assignment, attr-defined]


def stumble() -> None:
    raise KeyError("planted")


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


@pytest.mark.parametrize(("happen", "cause"), [(stumble, "KeyError('planted')"), (kill_oneself, "")])
def test_a_lost_trainer_ends_everybody(happen: Callable[[], object], cause: str) -> None:
    """They end well before any limit: the timeout is longer than the world's deadline."""
    case = replace(SMALL, trainers=3, timeout=100)
    outcomes = launch_and_wait(case, before=partial(in_its_second_loss, happen), deadline=60)
    ps = outcomes["ps"]
    assert isinstance(ps, Raised)
    assert ps.type.endswith("StepFailed")
    assert ps.message.startswith("step 1: ")
    assert f"trainer2 failed: {cause}" in ps.message
    for name in trainer_names(case):
        assert isinstance(outcomes[name], Raised | Killed), outcomes[name]


@pytest.mark.long
def test_a_stopped_trainer_is_named() -> None:
    ps = end_of("ps", roles(replace(SMALL, timeout=1)), before=partial(in_its_second_loss, stop), limit=20)
    assert isinstance(ps, Raised)
    assert "trainer1 failed: " in ps.message
    assert ps.message.endswith("nothing for 6.0 s from trainer2")


@pytest.mark.long
def test_a_trainer_that_stops_before_its_update_is_named_alone() -> None:
    """The server's limit comes before that of the trainer which waits for the same step."""
    ps = end_of("ps", roles(replace(SMALL, timeout=1)), before=partial(after_its_second_backward, stop), limit=30)
    assert isinstance(ps, Raised)
    assert ps.message == "step 1: nothing for 6.0 s from trainer2"
