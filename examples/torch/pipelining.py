"""``pipeline`` by torch.distributed.pipelining: GPipe or 1F1B on two processes, over gloo.

    python -m reference conform run suite --out results --cases 'pipeline-*' -- python examples/torch/pipelining.py 1F1B

It imports nothing of this package.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from case import Tensors, answer, asked, inputs_of, linear_layers, skip
from safetensors.torch import load_file, save_file
from torch import multiprocessing, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

SCHEDULES = {"GPipe": ScheduleGPipe, "1F1B": Schedule1F1B}


def loss_function(case: dict[str, Any]) -> Any:
    """The loss of a micro-batch, as its share of the whole batch's loss: the shares are added."""
    elements = case["batch_size"] * case["num_classes"]

    def loss_of(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if case["arithmetic"] == "exact":
            return (scores * (labels + 1)).sum()
        return ((scores - labels) ** 2).sum() / elements

    return loss_of


def stage_of(case: dict[str, Any], half: int, initial: Tensors) -> nn.Sequential:
    """One half of the mlp: ``depth`` linear layers with a ReLU after each, but the scores."""
    width, depth = case["width"], case["depth"]
    sizes = [3 * case["image_h"] * case["image_w"], *[width] * (2 * depth - 1), case["num_classes"]]
    layers: list[nn.Module] = [nn.Flatten()] if half == 0 else []
    for place in range(half * depth, (half + 1) * depth):
        layers += [nn.Linear(sizes[place], sizes[place + 1]), nn.ReLU()]
    prefix = f"initial/shard{half + 1}.seq."
    mine = {name.removeprefix(prefix): tensor for name, tensor in initial.items() if name.startswith(prefix)}
    return linear_layers(mine, layers[:-1] if half == 1 else layers)


def train(rank: int, schedule: str, case: dict[str, Any], given: Path, folder: str) -> None:
    """Play one stage, and leave its share of the answer in ``folder``."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    inputs = inputs_of(given)
    model = stage_of(case, rank, inputs)
    stage = PipelineStage(model, rank, 2, torch.device("cpu"))
    pipeline = SCHEDULES[schedule](stage, case["num_split"], loss_fn=loss_function(case), scale_grads=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=case["lr"])
    found: Tensors = {}
    for step in range(case["steps"]):
        optimizer.zero_grad()
        if rank == 0:
            pipeline.step(inputs[f"data/master/{step:04d}/inputs"])
        else:
            losses: list[torch.Tensor] = []
            pipeline.step(target=inputs[f"data/master/{step:04d}/labels"], losses=losses)
            found[f"{step:04d}/loss/master"] = torch.stack(losses).sum().detach()
        optimizer.step()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None
            found[f"{step:04d}/gradient/shard{rank + 1}.seq.{name}"] = parameter.grad.clone()
            found[f"{step:04d}/parameter/shard{rank + 1}.seq.{name}"] = parameter.detach().clone()
    save_file(found, f"{folder}/{rank}.safetensors")
    dist.barrier()  # no process leaves while the other one still sends
    dist.destroy_process_group()


def main() -> None:
    schedule = sys.argv[1]
    if schedule not in SCHEDULES:
        sys.exit(f"no schedule {schedule}, wanted {' or '.join(SCHEDULES)} before the folders")
    described, given, answers = asked()
    case = described["case"]
    if described["tutorial"] != "pipeline":
        skip(answers, f"not {described['tutorial']}")
    elif case["model"] != "mlp":
        skip(answers, f"no {case['model']}")
    elif case["batch_size"] % case["num_split"] or case["num_split"] < (2 if schedule == "1F1B" else 1):
        skip(answers, "torch.distributed.pipelining wants micro-batches of one size, and 1F1B as many as stages")
    else:
        with tempfile.TemporaryDirectory() as folder:
            # Forked, so that torch is imported once.
            multiprocessing.start_processes(train, (schedule, case, given, folder), nprocs=2, start_method="fork")
            answer(answers, load_file(f"{folder}/0.safetensors") | load_file(f"{folder}/1.safetensors"))


if __name__ == "__main__":
    main()
