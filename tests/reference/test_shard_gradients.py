"""The wait for gradients ends when the last one is there, and names one that never comes."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import pytest
import torch
import torch.distributed.autograd as dist_autograd

from reference.rpc.shard import AccumulatedGradients
from reference.world import World

pytestmark = pytest.mark.world("alone")


def parameters() -> dict[str, torch.Tensor]:
    """Three parameters, one of which is frozen."""
    made = {name: torch.ones(2, requires_grad=True) for name in ("first", "second")}
    return {**made, "frozen": torch.ones(2)}


class Told(threading.Condition):
    """A condition that tells when a thread waits for it: that one has its lock until it waits."""

    waited = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.set()
        return super().wait(timeout)


def wait_before_the_pass() -> tuple[dict[str, list[float]], float]:
    """Runs on a role: the gradients that a wait got that began before the pass, and its seconds after the pass."""
    model = parameters()
    with patch("threading.Condition", Told):
        accumulated = AccumulatedGradients(model)
    with dist_autograd.context() as context_id, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(accumulated.wait, context_id, 6.0)
        assert Told.waited.wait(20)
        backward(context_id, model)
        ended = time.monotonic()
        return {name: gradient.tolist() for name, gradient in waiting.result(30).items()}, time.monotonic() - ended


def backward(context_id: int, model: dict[str, torch.Tensor]) -> None:
    loss = (2 * model["first"] + 3 * model["second"] + model["frozen"]).sum()
    dist_autograd.backward(context_id, [loss])  # type: ignore[attr-defined]


def test_a_wait_ends_with_the_last_gradient(world: World) -> None:
    gradients, seconds = world.call("alone", wait_before_the_pass)
    assert gradients == {"first": [2.0, 2.0], "second": [3.0, 3.0]}
    assert seconds < 5


def passes_of_two_contexts() -> list[str]:
    """Runs on a role: what waits for a pass and again for the same say; and for the next one without a restart, then
    with one after a part of the pass, and after all of it."""
    model = parameters()
    accumulated = AccumulatedGradients(model)

    def said(context_id: int) -> str:
        try:
            return str(sorted(accumulated.wait(context_id, 0.1)))
        except LookupError:
            return "of another pass"
        except TimeoutError as error:
            return str(error)

    with dist_autograd.context() as first:
        backward(first, model)
        found = [said(first), said(first)]
    with dist_autograd.context() as second:
        found.append(said(second))
        accumulated.restart()
        dist_autograd.backward(second, [model["first"].sum()])  # type: ignore[attr-defined]
        found.append(said(second))
        backward(second, model)
        return [*found, said(second)]


def test_a_wait_is_for_the_gradients_of_its_own_pass_and_names_one_that_never_comes(world: World) -> None:
    whole, missing = "['first', 'second']", "1 of 2 parameters, among them 'second', had no gradient 0.1 s after"
    *others, late, last = world.call("alone", passes_of_two_contexts)
    assert others == [whole, whole, "of another pass"]
    assert late == f"{missing} the backward pass, wanted one for each"
    assert last == whole


def references_left() -> list[bool]:
    """Runs on a role, without garbage collections: whether a parameter is alive, before and after its end."""
    gc.disable()
    try:
        model = parameters()
        accumulated = AccumulatedGradients(model)
        alive = weakref.ref(accumulated)
        found = [alive() is not None]
        del accumulated, model
        return [*found, alive() is not None]
    finally:
        gc.enable()


def test_the_hooks_keep_no_parameter_alive(world: World) -> None:
    assert world.call("alone", references_left) == [True, False]


def test_it_can_be_made_where_no_graph_is_recorded() -> None:
    with torch.no_grad():
        AccumulatedGradients(parameters())
