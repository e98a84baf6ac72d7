"""Backward passes over three roles, of which the middle one is held where torch's engine can forget a message.

Runs as a command of its own and prints JSON, because its processes load ``tests/torch/slow_engine.c`` before torch.
"""

from __future__ import annotations

import json
import os
import sys

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch.distributed.optim import DistributedOptimizer
from torch.distributed.rpc import RRef

from reference.pipeline import WORKERS, Case, DistResNet50
from reference.trace import compare
from reference.world import launch
from tests.support.runs import run_in, twin

# The last role of a pass is held longer than the middle one, until the pass has ended on the caller (milliseconds).
HELD = {"worker1": "500", "worker2": "50"}

weights: list[torch.Tensor] = []


def hold(milliseconds: str) -> None:
    """Runs on a worker."""
    os.environ["HELD_MILLISECONDS"] = milliseconds


def new_weight() -> RRef[torch.Tensor]:
    """Runs on a worker."""
    weights[:] = [torch.ones(1, requires_grad=True)]
    return RRef(weights[0])


def weighted(x: torch.Tensor | RRef[torch.Tensor]) -> torch.Tensor:
    """Runs on a worker."""
    return weights[0] * (x if isinstance(x, torch.Tensor) else x.to_here())


def gradients_and_weight(context_id: int) -> tuple[int, float]:
    """Runs on a worker: how many gradients that context has, and the weight."""
    return len(dist_autograd.get_gradients(context_id)), weights[0].item()  # type: ignore[attr-defined]


def step(micro_batches: int) -> list[tuple[int, float]]:
    """Runs on the master: one step of w2 (w1 x), where every x is 1; then asks both workers. The learning rate is ½."""
    first, second = WORKERS
    optimizer = DistributedOptimizer(torch.optim.SGD, [rpc.rpc_sync(each, new_weight) for each in WORKERS], lr=0.5)
    with dist_autograd.context() as context_id:
        inner = [rpc.remote(first, weighted, args=(torch.ones(1),)) for _ in range(micro_batches)]
        outer = torch.futures.wait_all([rpc.rpc_async(second, weighted, args=(each,)) for each in inner])
        dist_autograd.backward(context_id, [torch.cat(outer).sum()])  # type: ignore[attr-defined]
        optimizer.step(context_id)
        return [rpc.rpc_sync(each, gradients_and_weight, args=(context_id,)) for each in WORKERS]


def do_not_wait() -> None:
    """Runs on the master: take the wait out of the tutorial."""
    DistResNet50.await_gradients = lambda self, context_id: None  # type: ignore[method-assign]


def main() -> None:
    case = Case(model="mlp", batch_size=8, image_w=4, image_h=4, num_classes=4, num_split=4, steps=2, record="ends")
    with launch(["master", *WORKERS], deadline=60, options={"num_worker_threads": 16}) as world:
        for worker, milliseconds in HELD.items():
            world.call(worker, hold, milliseconds)
        tutorial = compare(run_in(world, case), twin(case)).equal
        steps = {count: world.call("master", step, count) for count in (1, 3)}
        world.call("master", do_not_wait)
        careless = compare(run_in(world, case), twin(case)).equal
    json.dump({"steps": steps, "the tutorial": tutorial, "without its wait": careless}, sys.stdout)


if __name__ == "__main__":
    main()
