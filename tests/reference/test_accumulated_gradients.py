"""The wait for gradients ends when the last one is there, and names one that never comes."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed.autograd as dist_autograd

from reference.outcome import Raised, RoleFailed
from reference.rpc.accumulated_gradients import AccumulatedGradients
from reference.world import World

pytestmark = pytest.mark.world("alone")


class Told(AccumulatedGradients):
    """Says when a wait has found that gradients are missing."""

    def __init__(self, parameters: dict[str, torch.Tensor]) -> None:
        super().__init__(parameters)
        self.waits = threading.Event()

    def _missing(self, context_id: int) -> list[str]:
        missing = super()._missing(context_id)
        self.waits.set()
        return missing


def parameters() -> dict[str, torch.Tensor]:
    """Three parameters, one of which is frozen."""
    made = {name: torch.ones(2, requires_grad=True) for name in ("first", "second")}
    return {**made, "frozen": torch.ones(2)}


def wait_before_the_pass() -> tuple[dict[str, list[float]], float]:
    """Runs on a role: the gradients that a wait got that began before the pass, and its seconds after the pass."""
    model = parameters()
    accumulated = Told(model)
    with dist_autograd.context() as context_id, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(accumulated.wait, context_id, 6.0)
        assert accumulated.waits.wait(20)
        loss = (2 * model["first"] + 3 * model["second"] + model["frozen"]).sum()
        dist_autograd.backward(context_id, [loss])  # type: ignore[attr-defined]
        ended = time.monotonic()
        return {name: gradient.tolist() for name, gradient in waiting.result(30).items()}, time.monotonic() - ended


def test_a_wait_ends_with_the_last_gradient(world: World) -> None:
    gradients, seconds = world.call("alone", wait_before_the_pass)
    assert gradients == {"first": [2.0, 2.0], "second": [3.0, 3.0]}
    assert seconds < 5


def wait_for_a_parameter_without_a_part() -> None:
    """Runs on a role: of two parameters a pass uses only one."""
    model = parameters()
    accumulated = AccumulatedGradients(model)
    with dist_autograd.context() as context_id:
        dist_autograd.backward(context_id, [model["first"].sum()])  # type: ignore[attr-defined]
        accumulated.wait(context_id, 0.1)


def test_a_gradient_that_never_comes_is_named(world: World) -> None:
    with pytest.raises(RoleFailed) as caught:
        world.call("alone", wait_for_a_parameter_without_a_part)
    assert isinstance(caught.value.outcome, Raised)
    assert caught.value.outcome.type == "TimeoutError"
    assert caught.value.outcome.message == (
        "1 of 2 parameters, among them 'second', had no gradient 0.1 s after the backward pass, wanted one for each"
    )
