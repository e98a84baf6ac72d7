"""``batch_parameter_server`` and ``sharded_parameter_server`` by DistributedDataParallel over gloo, without a server.

    python -m reference conform run suite --out results --cases '*h*_parameter_server-*' -- python examples/torch/ddp.py

Each trainer is a process. It imports nothing of this package.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from case import Tensors, answer, asked, inputs_of, linear_layers, skip
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

HIDDEN = 8


def loss_of(case: dict[str, Any], scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return (scores * (labels + 1)).sum() if case["arithmetic"] == "exact" else nn.functional.mse_loss(scores, labels)


def train(rank: int, case: dict[str, Any], given: Path, answers: Path, store: str) -> None:
    """Play one trainer; the first one writes the answer."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=case["trainers"])
    inputs = inputs_of(given)
    initial = {name.removeprefix("initial/"): tensor for name, tensor in inputs.items() if name.startswith("initial/")}
    pixels = 3 * case["image_w"] * case["image_h"]
    layers = [nn.Flatten(), nn.Linear(pixels, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, case["num_classes"])]
    model = linear_layers(initial, layers)
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=case["lr"], momentum=case["momentum"])
    found: Tensors = {}
    for step in range(case["steps"]):
        place = f"data/trainer{rank + 1}/{step:04d}"
        optimizer.zero_grad()
        loss = loss_of(case, parallel(inputs[f"{place}/inputs"]), inputs[f"{place}/labels"])
        loss.backward()  # DDP leaves the mean over all trainers in .grad
        optimizer.step()
        losses = [torch.zeros_like(loss) for _ in range(case["trainers"])]
        dist.all_gather(losses, loss.detach())
        found |= {f"{step:04d}/loss/trainer{number}": each for number, each in enumerate(losses, start=1)}
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None
            found[f"{step:04d}/gradient/{name}"] = parameter.grad.clone()
            found[f"{step:04d}/parameter/{name}"] = parameter.detach().clone()
    if rank == 0:
        answer(answers, found)
    dist.destroy_process_group()


def main() -> None:
    described, given, answers = asked()
    case = described["case"]
    if described["tutorial"] not in ("batch_parameter_server", "sharded_parameter_server"):
        skip(answers, f"not {described['tutorial']}")
    elif case["model"] != "mlp":
        skip(answers, "no batch norm: the case wants the trainers' mean statistics, DDP keeps the first trainer's")
    else:
        with tempfile.TemporaryDirectory() as folder:
            arguments = (case, given, answers, f"file://{folder}/store")
            # Forked, so that torch is imported once.
            multiprocessing.start_processes(train, arguments, nprocs=case["trainers"], start_method="fork")


if __name__ == "__main__":
    main()
