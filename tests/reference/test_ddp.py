"""DDP on roles: failing backward passes, and means in rank order and by allreduce."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc

from faults.testing.idle_world import Idle
from reference.rpc.ddp import backward, mean, mean_of_allreduce
from reference.system.text import cause_of
from tests.support.roles_plain import name

LIMIT_SECONDS = 10.0
# On c: a is in its hook.
begun: torch.futures.Future[None] = torch.futures.Future()
# On b: the backward pass of `Doomed` is about to fail.
failing: torch.futures.Future[None] = torch.futures.Future()
# On a: the events there, in their order.
events: list[str] = []


class Doomed(torch.autograd.Function):
    """The identity, without a backward. It fails once a is in its hook, which a failure before would skip."""

    @staticmethod
    def forward(_: Any, value: torch.Tensor) -> torch.Tensor:
        return value.clone()

    @staticmethod
    def backward(*_: Any) -> Any:
        rpc.rpc_sync("c", once_begun, timeout=LIMIT_SECONDS)
        failing.set_result(None)
        raise ValueError("planted")


def far(value: torch.Tensor) -> torch.Tensor:
    """Runs on b."""
    return Doomed.apply(value)  # type: ignore[no-any-return, no-untyped-call]


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def once_begun() -> torch.futures.Future[None]:
    """Runs on c. Its only thread does not wait for it, nor does b's for the next."""
    return begun


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def once_failing() -> torch.futures.Future[None]:
    """Runs on b."""
    return failing


def begin() -> None:
    """Runs on c."""
    begun.set_result(None)


def until_the_failure_is_known(_: object) -> None:
    """Runs on a, in the thread of the pass, as a hook of DDP does."""
    rpc.rpc_sync("c", begin)
    rpc.rpc_sync("b", once_failing, timeout=LIMIT_SECONDS)
    for _ in range(20):  # the failure comes before these answers
        rpc.rpc_sync("b", name)
    events.append("hook")


def made_elsewhere(leaf: torch.Tensor) -> torch.Tensor:
    """Made by a new thread. The pass reaches it last: torch goes by numbers, which begin anew in each thread."""
    made: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: made.append(leaf.clone()))
    thread.start()
    thread.join(LIMIT_SECONDS)
    return made[0]


def count() -> None:
    """Runs on a, in its only RPC thread: it numbers what comes from b with more than 0 from now on."""
    torch.ones(1, requires_grad=True).clone()


def run() -> list[str]:
    """Runs on a: a pass of which one half is b's, and what happened."""
    rpc.rpc_sync("a", count)  # an answer may also be opened by the thread that waits for it
    leaf = torch.ones(1, requires_grad=True)
    with dist_autograd.context() as context_id:
        here = made_elsewhere(leaf)
        here.register_hook(until_the_failure_is_known)
        loss = here.sum() + rpc.rpc_sync("b", far, args=(leaf,)).sum()
        try:
            backward(context_id, loss, LIMIT_SECONDS)
        except RuntimeError as error:
            events.append(cause_of(error))
    return events


@pytest.fixture(scope="module")
def three(idle_world: Callable[..., Idle]) -> Idle:
    return idle_world(["a", "b", "c"], options={"num_worker_threads": 1})


def test_a_failure_comes_after_all_that_ran_here(three: Idle) -> None:
    assert three.call("a", run) == ["hook", "Error on Node 0: Error on Node 1: planted"]


# Three addends whose float64 sum depends on the order: (1 + 2^60) - 2^60 = 0, but (2^60 - 2^60) + 1 = 1.
LARGE = 2.0**60
ORDERS = [([1.0, LARGE, -LARGE], 0.0), ([LARGE, -LARGE, 1.0], 1.0), ([LARGE, 1.0, -LARGE], 0.0)]


def gradients_of(values: list[float]) -> list[torch.Tensor]:
    return [torch.tensor([value, 3 * value], dtype=torch.float64) for value in values]


@pytest.mark.parametrize(("values", "total"), ORDERS)
def test_mean_adds_from_the_first_gradient_to_the_last(values: list[float], total: float) -> None:
    assert mean(gradients_of(values)).tolist() == [total / 3, 3 * total / 3]


def test_mean_leaves_the_gradients_as_they_were() -> None:
    gradients = gradients_of([1.0, 2.0, 6.0])
    assert mean(gradients).tolist() == [3.0, 9.0]
    assert [gradient.tolist() for gradient in gradients] == [[1.0, 3.0], [2.0, 6.0], [6.0, 18.0]]


def test_mean_divides_once_and_allreduce_multiplies_every_gradient() -> None:
    """With 0.1 three times, (0.1 + 0.1 + 0.1) / 3 is 0.10000000000000002 in float64, three thirds of 0.1 add to 0.1."""
    third = 0.1 * (1 / 3)
    gradients = [torch.tensor(0.1, dtype=torch.float64)] * 3
    assert mean(gradients).item() == (0.1 + 0.1 + 0.1) / 3 == 0.10000000000000002
    assert mean_of_allreduce(gradients).item() == third + third + third == 0.1


def test_the_mean_of_negative_zeros_keeps_its_sign() -> None:
    zeros = [torch.tensor(-0.0)] * 2
    assert math.copysign(1, mean(zeros).item()) == math.copysign(1, mean_of_allreduce(zeros).item()) == -1
