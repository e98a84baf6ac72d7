"""The scenes of the tutorials whose gradients can be taken apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import nn

from reference import load
from reference.explain.rnn_scene import RnnScene
from reference.explain.scene import Batch, Part, Scene, functional, gradients
from reference.trace.trace import Named, Trace


class TrainersScene(Scene):
    """The mean over trainers, each of which has a batch of its own at every step."""

    batches: dict[str, list[Batch]]

    @property
    def divisor(self) -> int:
        return int(self.case.trainers)

    def names(self, step: int) -> Sequence[str]:
        return list(self.batches)

    def batch(self, name: str, step: int) -> Batch | None:
        return self.batches[name][step] if 0 <= step < len(self.batches[name]) else None


class ServerScene(TrainersScene):
    """``batch_parameter_server`` and ``sharded_parameter_server``: the mean over trainers."""

    def __init__(self, case: Any, twin: Trace) -> None:
        super().__init__(case, twin)
        self.module = load("batch_parameter_server")
        self.model = self.module.initial_model(case)
        self.trainers = {name: self.module.Trainer(case, name) for name in self.module.trainer_names(case)}
        self.batches = {name: list(trainer.get_next_batch()) for name, trainer in self.trainers.items()}

    def part(self, name: str, parameters: Named, batch: Batch, step: int) -> Part:
        # Buffers that the trace does not have yet are the model's own.
        outputs, leaves = functional(self.model, {**dict(self.model.named_buffers()), **parameters}, batch[0])
        loss = self.trainers[name].loss_fn(outputs, batch[1])
        return loss.detach(), gradients(loss, leaves)


class WorkerScene(Scene):
    """``parameter_server``: one worker per update, with the parameters that it pulled."""

    word = "worker"

    def __init__(self, case: Any, twin: Trace) -> None:
        super().__init__(case, twin)
        self.module = load("parameter_server")
        self.model = self.module.build_model(case)
        self.workers = self.module.worker_names(case)
        self.batches = {name: list(self.module.batches(case, name)) for name in self.workers}

    @cached_property
    def updates(self) -> list[tuple[str, int, int]]:
        """For each update its worker, the number of the worker's batch, and the update before which it pulled."""
        pulled: dict[int, list[int]] = {}
        pushed: dict[int, int] = {}
        found: list[tuple[str, int, int]] = []
        for kind, worker in self.twin.tensors["order/events"].tolist():
            if kind == 0:
                pulled.setdefault(worker, []).append(len(found))
                continue
            number = pushed.get(worker, 0)
            pushed[worker] = number + 1
            # With staleness 1 gradients are those at the pull before the last, but for the first.
            mine = pulled[worker]
            found.append((self.workers[worker], number, mine[max(0, len(mine) - 1 - self.case.staleness)]))
        return found

    def names(self, step: int) -> Sequence[str]:
        return [self.updates[step][0]] if step < len(self.updates) else []

    def batch(self, name: str, step: int) -> Batch | None:
        if not 0 <= step < len(self.updates):
            return None
        found: Batch = self.batches[name][self.updates[step][1]]
        return found

    def taken_at(self, step: int) -> int:
        return self.updates[step][2]

    def part(self, name: str, parameters: Named, batch: Batch, step: int) -> Part:
        model = self.module.build_model(self.case)
        model.load_state_dict(dict(parameters))
        loss, found = self.module.gradients_of(self.case, model, *batch)
        return loss, found


class PassScene(Scene):
    """``dist_autograd``: passes at once, whose gradients stay apart."""

    summed, word = False, "pass"

    def names(self, step: int) -> Sequence[str]:
        return [f"context{number}" for number in range(self.case.contexts)]

    def batch(self, name: str, step: int) -> Batch | None:
        return () if 0 <= step < self.case.steps else None

    def part(self, name: str, parameters: Named, batch: Batch, step: int) -> Part:
        leaves = {key: tensor.detach().clone().requires_grad_() for key, tensor in parameters.items()}
        loss = load("dist_autograd").loss_of(int(name.removeprefix("context")), leaves["worker1"], leaves["worker2"])
        return loss.detach(), gradients(loss, leaves)

    def model_name(self, name: str) -> tuple[str | None, str]:
        part, _, rest = name.partition("/")
        return part, rest


class HybridScene(TrainersScene):
    """``hybrid_ddp``: the mean over trainers; each trainer's replica has the same names after its own."""

    def __init__(self, case: Any, twin: Trace) -> None:
        super().__init__(case, twin)
        self.module = load("hybrid_ddp")
        self.trainers = self.module.trainer_names(case)
        self.batches = {name: list(self.module.get_next_batch(case, name)) for name in self.trainers}

    def parameters(self, step: int, name: str) -> dict[str, torch.Tensor] | None:
        found = super().parameters(step, name)
        return None if found is None else {key: t for key, t in found.items() if key.startswith((f"{name}/", "ps/"))}

    def part(self, name: str, parameters: Named, batch: Batch, step: int) -> Part:
        sparse, dense = self.module.sparse_part(self.case), self.module.dense_part(self.case)
        rows, table = functional(sparse, {"weight": parameters["ps/weight"]}, batch[0])
        mine = {key.removeprefix(f"{name}/"): t for key, t in parameters.items() if key.startswith(f"{name}/")}
        scores, layers = functional(dense, mine, rows)
        loss = self.module.loss_of(self.case, scores, batch[1])
        found = gradients(loss, {"ps/weight": table["weight"], **layers})
        return loss.detach(), found

    def model_name(self, name: str) -> tuple[str | None, str]:
        return None, name if name == "ps/weight" else name.partition("/")[2]


class MicroBatchScene(Scene):
    """``pipeline``: the sum over micro-batches of one batch, whose loss is that of the whole batch."""

    word = "micro-batch"

    def __init__(self, case: Any, twin: Trace) -> None:
        super().__init__(case, twin)
        self.module = load("pipeline")
        self.batches = list(self.module.batches(case))
        self.loss: Callable[..., torch.Tensor] = self.module.loss_function(case)

    def names(self, step: int) -> Sequence[str]:
        return [f"micro-batch {number}" for number in range(1, self.case.num_split + 1)]

    def batch(self, name: str, step: int) -> Batch | None:
        return self.batches[step] if 0 <= step < len(self.batches) else None

    def part(self, name: str, parameters: Named, batch: Batch, step: int) -> Part:
        shards = [self.module.make_shard(self.case, half) for half in (1, 2)]
        model = nn.ModuleDict({"shard1": shards[0], "shard2": shards[1]})
        with torch.no_grad():
            for key, tensor in model.state_dict(keep_vars=True).items():
                tensor.copy_(parameters.get(key, tensor))
        chosen = int(name.rpartition(" ")[2]) - 1
        outputs = [self.module.forward(shards, x) for x in batch[0].tensor_split(self.case.num_split)]
        mine = torch.cat([out if number == chosen else out.detach() for number, out in enumerate(outputs)])
        loss = self.loss(mine, batch[1])
        return loss.detach(), gradients(loss, dict(model.named_parameters()))


SCENES: dict[str, type[Scene]] = {
    "dist_autograd": PassScene,
    "parameter_server": WorkerScene,
    "batch_parameter_server": ServerScene,
    "sharded_parameter_server": ServerScene,
    "hybrid_ddp": HybridScene,
    "rnn": RnnScene,
    "pipeline": MicroBatchScene,
}


def scene_of(twin: Trace) -> Scene | None:
    """The scene of a twin's trace; None for a tutorial whose gradients are not taken apart."""
    kind = SCENES.get(twin.case.tutorial())
    return None if kind is None else kind(twin.case, twin)
