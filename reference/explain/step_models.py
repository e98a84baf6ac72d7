"""The step models of the tutorials whose gradients can be taken apart."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import torch
from torch import nn

from reference import load
from reference.trace.names import own_name
from reference.trace.trace import Named, Trace
from reference.training.data import Corpus
from reference.training.rng import seeded

Batch = tuple[torch.Tensor, ...]
# Loss and gradients by the model's own names.
Part = tuple[torch.Tensor, dict[str, torch.Tensor]]
# A mistake's id, what it is, and the part that a program with it computes.
Variant = tuple[str, str, Callable[[str], Part | None]]


class StepModel(ABC):
    """One tutorial's step. ``case`` and ``twin`` are the reference's."""

    # Whether several parts are added into one gradient, and what one part is called.
    summed = True
    word = "trainer"

    def __init__(self, case: Any, twin: Trace) -> None:
        self.case, self.twin = case, twin

    @property
    def divisor(self) -> int:
        """By what the sum of the parts is divided."""
        return 1

    @abstractmethod
    def names(self, step: int) -> Sequence[str]:
        """Whose parts a step has, in the order in which they are added."""

    @abstractmethod
    def batch(self, name: str, step: int) -> Batch | None:
        """What ``name`` computes of at ``step``; None if there is no such batch."""

    @abstractmethod
    def part(self, name: str, parameters: Named, batch: Batch, step: int) -> Part:
        """Compute one part of ``step`` at these parameters, which have the model's own names."""

    def variants(self, step: int) -> Iterator[Variant]:
        """Yield mistakes that only this tutorial has."""
        yield from ()

    def taken_at(self, step: int) -> int:
        """Before which step the parameters are those at which this step's gradients are taken."""
        return step

    def parameters(self, step: int, name: str) -> dict[str, torch.Tensor] | None:
        """The reference's parameters and buffers before ``step``, as ``name`` has them; None if there are none."""
        if step < 0 or step > self.last + 1:
            return None
        prefix = (f"{step - 1:04d}/parameter/", f"{step - 1:04d}/buffer/") if step else ("initial/",)
        return {own_name(key): tensor for key, tensor in self.twin.tensors.items() if key.startswith(prefix)}

    @property
    def last(self) -> int:
        """The number of the last step."""
        return max((int(name[:4]) for name in self.twin.tensors if name[:4].isdigit()), default=-1)

    def model_name(self, name: str) -> tuple[str | None, str]:
        """Of which part a gradient's own name tells, None for all of them, and its name in the model."""
        return None, name


def functional(
    model: nn.Module, parameters: Named, inputs: torch.Tensor
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Run ``model`` with other parameters; returns its outputs, and the leaves of which gradients can be taken."""
    trained = {name for name, _ in model.named_parameters()}
    leaves = {name: tensor.detach().clone().requires_grad_() for name, tensor in parameters.items() if name in trained}
    buffers = {name: tensor.clone() for name, tensor in parameters.items() if name not in trained}
    outputs: torch.Tensor = torch.func.functional_call(model, {**leaves, **buffers}, (inputs,))
    return outputs, leaves


def gradients(loss: torch.Tensor, leaves: Named) -> dict[str, torch.Tensor]:
    """Gradients of ``loss`` by name."""
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return {
        name: torch.zeros_like(leaf) if each is None else each
        for (name, leaf), each in zip(leaves.items(), found, strict=True)
    }


Hidden = tuple[torch.Tensor, torch.Tensor]


class RnnStepModel(StepModel):
    """The trainer's loss; its hidden state goes on from step to step and is zero at the start of an epoch."""

    summed, word = False, "trainer"

    def __init__(self, case: Any, twin: Trace) -> None:
        super().__init__(case, twin)
        self.module = load("rnn")
        self.corpus = Corpus(case.read())
        self.batches = [(data, target) for _, data, target in self.module.batches(case, self.corpus)]

    def names(self, step: int) -> Sequence[str]:
        return ["trainer"]

    def batch(self, name: str, step: int) -> Batch | None:
        return self.batches[step] if 0 <= step < len(self.batches) else None

    def part(self, name: str, parameters: Named, batch: Batch, step: int) -> Part:
        return self._part(parameters, batch, step, self._hidden(step))

    def variants(self, step: int) -> Iterator[Variant]:
        zeros = self.module.first_hidden(self.case)
        if step % self.case.batches:
            text = "with a hidden state of zeros, wanted that of the last step"
            yield "hidden-lost", text, partial(self._with_hidden, step, zeros)
        elif step:
            text = "with the last epoch's hidden state, wanted zeros"
            yield "hidden-kept", text, partial(self._with_hidden, step, self._after(step - 1))

    def _with_hidden(self, step: int, hidden: Hidden, name: str) -> Part | None:
        parameters = self.parameters(step, name)
        return self._part(parameters, self.batches[step], step, hidden) if parameters else None

    def _part(self, parameters: Named, batch: Batch, step: int, hidden: Hidden) -> Part:
        model = self._model(parameters)
        loss = self.module.criterion(self._forward(model, batch[0], step, hidden)[0], batch[1])
        found = gradients(loss, dict(self.module.named(model)))
        return loss.detach(), found

    def _model(self, parameters: Named) -> Any:
        case, ntoken = self.case, self.corpus.ntoken
        parts = {
            "emb_table": self.module.EmbeddingTable(ntoken, case.ninp, case.dropout),
            "rnn": self.module.lstm(case.ninp, case.nhid, case.nlayers, case.dropout),
            "decoder": self.module.Decoder(ntoken, case.nhid, case.dropout),
        }
        model = nn.ModuleDict(parts).to(case.torch_dtype)
        with torch.no_grad():
            for name, parameter in self.module.named(model).items():
                parameter.copy_(parameters[name])
        return model

    def _forward(self, model: Any, data: torch.Tensor, step: int, hidden: Hidden) -> tuple[torch.Tensor, Hidden]:
        emb = model["emb_table"](data, self.case.seed, step)
        with seeded(self.case.seed, f"rnn/{step}"):
            output, after = model["rnn"](emb, hidden)
        return model["decoder"](output, self.case.seed, step), (after[0].detach(), after[1].detach())

    def _hidden(self, step: int) -> Hidden:
        """The hidden state before ``step``, computed from the start of its epoch."""
        if step % self.case.batches == 0:
            found: Hidden = self.module.first_hidden(self.case)
            return found
        return self._after(step - 1)

    def _after(self, step: int) -> Hidden:
        parameters = self.parameters(step, "trainer")
        assert parameters is not None
        return self._forward(self._model(parameters), self.batches[step][0], step, self._hidden(step))[1]


class TrainersStepModel(StepModel):
    """The mean over trainers, each of which has a batch of its own at every step."""

    batches: dict[str, list[Batch]]

    @property
    def divisor(self) -> int:
        return int(self.case.trainers)

    def names(self, step: int) -> Sequence[str]:
        return list(self.batches)

    def batch(self, name: str, step: int) -> Batch | None:
        return self.batches[name][step] if 0 <= step < len(self.batches[name]) else None


class ServerScene(TrainersStepModel):
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


class WorkerStepModel(StepModel):
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


class PassStepModel(StepModel):
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


class HybridScene(TrainersStepModel):
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


class MicroBatchStepModel(StepModel):
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


STEP_MODELS: dict[str, type[StepModel]] = {
    "dist_autograd": PassStepModel,
    "parameter_server": WorkerStepModel,
    "batch_parameter_server": ServerScene,
    "sharded_parameter_server": ServerScene,
    "hybrid_ddp": HybridScene,
    "rnn": RnnStepModel,
    "pipeline": MicroBatchStepModel,
}


def step_model_of(twin: Trace) -> StepModel | None:
    """The step model of a twin's trace; None for a tutorial whose gradients are not taken apart."""
    kind = STEP_MODELS.get(twin.case.tutorial())
    return None if kind is None else kind(twin.case, twin)
