"""Train with a parameter server for the sparse part, and data parallel (DDP) for the dense part.

Source: seed 003, which names this as what DistributedDataParallel cannot do alone, and gives no code.

Roles: ``ps`` holds the embedding table, starts every trainer and returns the trace. ``trainer1`` … hold one replica
each of the dense layers, which DDP keeps equal over a gloo process group. A batch is indices (batch_size, bag). The
sums of the bags' rows (batch_size, dim) travel to the trainer, and their gradient travels back. The table's own
gradient is as large as the table and stays on ``ps``.

A step is synchronous. Each trainer opens a distributed autograd context, looks its bags up, and goes forward and
backward. In the backward pass DDP puts the mean of all trainers' dense gradients into every trainer's context. The
trainer steps its replica with a `DistributedOptimizer` over its own parameters. ``ps`` takes the table's gradients out
of all contexts, adds them in rank order, and makes one SGD step on their mean. Then the next step begins.

A hook of DDP's gathers the dense gradients and adds them in ``rank`` order. DDP's own ``allreduce`` adds them in gloo's
order: then, with three trainers or more, natural arithmetic is right within rounding only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, ClassVar

import torch
import torch.distributed as dist
import torch.distributed.autograd as dist_autograd  # the module: `context` alone has no `context` (S0.18)
import torch.distributed.rpc as rpc
from torch import nn, optim
from torch.distributed.optim import DistributedOptimizer
from torch.distributed.rpc import RRef
from torch.nn.parallel import DistributedDataParallel

from reference.exact.exactness import proven
from reference.roles import Roles, numbered
from reference.rpc.ddp import backward, mean, mean_in_rank_order, mean_of_allreduce, process_group
from reference.rpc.rounds import RoundFailed, Rounds
from reference.rpc.timeouts import rpc_timeout
from reference.trace.case import choice_field, number_field
from reference.trace.checkpoint import resume, save
from reference.trace.recorder import Recorder
from reference.trace.trace import Trace
from reference.training.models import voting_bags
from reference.training.placement import one_thread
from reference.training.rng import build_seeded, generator
from reference.training.training_case import ExactableCase

Named = dict[str, torch.Tensor]

# --- The lesson: a table behind RPC, dense layers in DDP, one backward pass through both -----------------------------


class StepFailed(RoundFailed):
    """A step that cannot be completed. Says why, and which trainers it lacks."""

    unit = "step"


class EmbeddingServer:
    """Runs on ``ps``; its calls arrive in RPC threads, several at once."""

    def __init__(self, case: Case) -> None:
        self.trainers = trainer_names(case)
        self.embedding = sparse_part(case)
        self.optimizer = optim.SGD(self.embedding.parameters(), lr=case.lr)
        self.lock = threading.Lock()
        self.held: dict[str, torch.Tensor] = {}
        self.recorder = Recorder(case, parameters_of(self.weight, dict.fromkeys(self.trainers, dense_part(case))))
        self.saved = resume(embedding=self.embedding, trace=self.recorder)
        # The trainers' collectives have a shorter limit, and say more.
        self.step: Rounds[None] = Rounds(self.trainers, case.steps, case.reply_timeout, StepFailed)
        self.step.number = self.saved

    @property
    def weight(self) -> torch.Tensor:
        return next(self.embedding.parameters())

    @staticmethod
    def lookup(ps_rref: RRef[Any], indices: torch.Tensor) -> torch.Tensor:
        """Return the sums of rows (batch_size, dim) for indices (batch_size, bag), in the caller's autograd context."""
        rows: torch.Tensor = ps_rref.local_value().embedding(indices)
        return rows

    @staticmethod
    @rpc.functions.async_execution  # type: ignore[untyped-decorator]
    def update(ps_rref: RRef[Any], trainer: str, context_id: int) -> torch.futures.Future[None]:
        """Add one trainer's gradient of this step, which lies here in that trainer's context.

        The answer comes when the table is updated. The call blocks no RPC thread: all trainers but the last get a
        future that the last one completes.

        Raises:
            StepFailed: a trainer failed, reports twice, or after the last step.
        """
        self = ps_rref.local_value()
        with self.lock, self.step.report(trainer) as (fut, last):
            self.held[trainer] = dist_autograd.get_gradients(context_id)[self.weight]  # type: ignore[attr-defined]
            if last:
                self.save()
                self.apply()
        if last:
            self.step.swap_future().set_result(None)  # outside the lock: it answers every waiting trainer in turn
            with self.lock:
                self.save()
        return fut  # type: ignore[no-any-return]

    def save(self) -> None:
        """Save the state after the last step, once: the thread that answered may come here after the next report."""
        if self.saved < self.step.number:
            self.saved = self.step.number
            save(self.saved, embedding=self.embedding, trace=self.recorder)

    def apply(self) -> None:
        """Make one optimizer step on the mean of the trainers' gradients."""
        self.weight.grad = mean([self.held[name] for name in self.trainers])
        self.optimizer.step()
        self.recorder.step(self.step.number, {}, {"ps/weight": self.weight})
        self.held = {}


class HybridModel(nn.Module):
    """Runs on a trainer: the table is remote, the dense part is this trainer's replica under DDP."""

    def __init__(self, case: Case, ps_rref: RRef[Any]) -> None:
        super().__init__()
        self.ps_rref = ps_rref
        self.dense = dense_part(case)
        self.ddp = DistributedDataParallel(self.dense)
        if case.accumulation == "rank":
            self.ddp.register_comm_hook(None, mean_in_rank_order)

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        """Scores (batch_size, num_classes) for indices (batch_size, bag)."""
        rows = rpc.rpc_sync(self.ps_rref.owner(), EmbeddingServer.lookup, args=(self.ps_rref, indices))
        scores: torch.Tensor = self.ddp(rows)
        return scores


def train(case: Case, name: str, ps_rref: RRef[Any]) -> Named:
    """Train for all steps of one trainer; returns its part of the trace."""
    model = HybridModel(case, ps_rref)
    opt = DistributedOptimizer(optim.SGD, [RRef(p) for p in model.dense.parameters()], lr=case.lr)
    recorder = Recorder(case, {})
    start = resume(dense=model.dense, trace=recorder)
    for step, (indices, target) in islice(enumerate(get_next_batch(case, name)), start, None):
        with dist_autograd.context() as context_id:
            loss = loss_of(case, model(indices), target)
            backward(context_id, loss, case.reply_timeout)  # the collectives' own limit comes first
            found = dist_autograd.get_gradients(context_id)  # type: ignore[attr-defined]
            gradients = {key: found[p].clone() for key, p in named(name, model.dense).items() if recorder.every}
            opt.step(context_id)
            args, limit = (ps_rref, name, context_id), case.reply_timeout + 5  # the server's own limit comes first
            rpc.rpc_sync(ps_rref.owner(), EmbeddingServer.update, args=args, timeout=limit)
        recorder.step(step, {name: loss}, named(name, model.dense), gradients)
        save(step + 1, dense=model.dense, trace=recorder)
    return recorder.tensors


def named(trainer: str, module: nn.Module) -> Named:
    """Name a trainer's parameters as the trace does."""
    return {f"{trainer}/{name}": parameter for name, parameter in module.named_parameters()}


# --- The two parts of the model, data and loss, for the lesson and the twin ------------------------------------------


def trainer_names(case: Case) -> list[str]:
    """The trainers in rank order."""
    return numbered("trainer", case.trainers)


def _drawn(case: Case, name: str, kind: Callable[..., nn.Module], *args: object) -> nn.Module:
    module = build_seeded(kind, *args, seed=case.seed, name=name, dtype=case.dtype)
    if case.is_exact:
        draws = generator(case.seed, name)
        for parameter in module.parameters():
            parameter.data.copy_(torch.randint(-1, 2, parameter.shape, generator=draws))
    return module


def sparse_part(case: Case) -> nn.Module:
    """Build the table on ``ps``: indices (batch_size, bag) to sums of rows (batch_size, dim)."""
    return _drawn(case, "sparse", partial(nn.EmbeddingBag, mode="sum"), case.rows, case.dim)


def dense_part(case: Case) -> nn.Module:
    """Build a trainer's replica: (batch_size, dim) to scores (batch_size, num_classes)."""

    def layers() -> nn.Module:
        return nn.Sequential(nn.Linear(case.dim, case.hidden), nn.ReLU(), nn.Linear(case.hidden, case.num_classes))

    return _drawn(case, "dense", layers)


def get_next_batch(case: Case, name: str) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield a trainer's indices (batch_size, bag) and classes (batch_size,), per step."""
    return voting_bags(case.seed, name, case.steps, (case.batch_size, case.bag), case.rows, case.num_classes)


def loss_of(case: Case, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the mean cross entropy; in exact arithmetic a weighted sum."""
    if case.is_exact:
        return (output * (1 + nn.functional.one_hot(target, case.num_classes))).sum()
    return nn.functional.cross_entropy(output, target)


def parameters_of(weight: torch.Tensor, replicas: Mapping[str, nn.Module]) -> Named:
    """Name the table and every trainer's replica of the dense part as the trace does."""
    return {"ps/weight": weight, **{key: p for each in replicas.items() for key, p in named(*each).items()}}


def part_of(replicas: Mapping[str, nn.Module], gradients: Sequence[torch.Tensor]) -> Named:
    """Name one trainer's gradients of the table and of its replica as the trace names their mean."""
    every = [named(*each) for each in replicas.items()]
    return {"ps/weight": gradients[0], **{k: g for each in every for k, g in zip(each, gradients[1:], strict=True)}}


# --- Roles and Case --------------------------------------------------------------------------------------------------


def run_trainer(case: Case, name: str, ps_rref: RRef[Any], store: RRef[Any]) -> Named:
    """Train one replica. Runs on a trainer, called by ``ps``.

    Raises:
        RuntimeError: ``ps`` or another trainer is lost or failed, or let this one wait for too long: for
            ``case.timeout`` seconds, in the backward pass 5 more, in the server's step 10 more.
    """
    rank = trainer_names(case).index(name)
    with rpc_timeout(case.timeout), process_group(store, rank, case.trainers, case.timeout):
        return train(case, name, ps_rref)


def run_ps(case: Case) -> Trace:
    """Serve the table, start every trainer and collect the trace. Runs on ``ps``.

    Raises:
        StepFailed: trainers failed, were lost or did nothing for ``case.reply_timeout`` seconds. Says which.
    """
    server = EmbeddingServer(case)
    with closing(server.step):
        ps_rref, store = RRef(server), RRef(dist.HashStore())  # type: ignore[attr-defined]
        futures = {
            # Without a limit of its own: every step has one.
            name: rpc.rpc_async(name, run_trainer, args=(case, name, ps_rref, store), timeout=0)
            for name in server.trainers
        }
        # After a failure `gather` waits for the other trainers: the loss of one ends all, and theirs may be the cause.
        for tensors in server.step.gather(futures, stay=case.reply_timeout).values():
            server.recorder.tensors.update(tensors)
        return server.recorder.trace()


def roles(case: Case) -> Roles:
    return Roles({"ps": partial(run_ps, case)}, serving=trainer_names(case))


@dataclass(frozen=True)
class Case(ExactableCase):
    """The talk names no sizes; these are small."""

    steps: int = number_field(20, "updates of the model", at_least=1)
    trainers: int = number_field(2, "trainers, each with a dense replica", at_least=1, at_most=15, scales=True)
    rows: int = number_field(100, "rows of the embedding table", at_least=1, at_most=2**24)
    dim: int = number_field(16, "numbers of a row", at_least=1, at_most=65536)
    hidden: int = number_field(16, "units of the dense part's hidden layer", at_least=1, at_most=65536)
    num_classes: int = number_field(8, "classes", at_least=2, at_most=65536)
    batch_size: int = number_field(32, "bags of a trainer's batch", at_least=1, at_most=65536)
    bag: int = number_field(5, "rows that are summed for one example", at_least=1, at_most=1024)
    lr: float = number_field(0.05, "learning rate of SGD", at_least=0.0)
    accumulation: str = choice_field("rank", "allreduce", help="how DDP adds the dense gradients")

    EXACT: ClassVar[Mapping[str, Any]] = {"dtype": "float64", "lr": 0.5, "steps": 3, "trainers": 4} | {
        "batch_size": 4,
        "bag": 2,
        "dim": 2,
        "hidden": 2,
    }

    def validate(self) -> None:
        self.require_exact("lr", "trainers")


# --- The twin: the same in one process -------------------------------------------------------------------------------


@one_thread()
@proven
def train_locally(case: Case, replay: Trace | None = None) -> Trace:
    """Compute every trainer's gradients one after the other, with one table and a replica for each.

    Raises:
        NotExact: exact arithmetic that would round.
    """
    sparse, replicas = sparse_part(case), {name: dense_part(case) for name in trainer_names(case)}
    weight = next(sparse.parameters())
    parameters = parameters_of(weight, replicas)
    optimizer = optim.SGD(parameters.values(), lr=case.lr)
    recorder = Recorder(case, parameters)
    for step, batches in enumerate(zip(*(get_next_batch(case, name) for name in replicas), strict=True)):
        losses, each = {}, {}
        for (name, dense), (x, y) in zip(replicas.items(), batches, strict=True):
            with recorder.outputs(step, name, nn.ModuleDict({"sparse": sparse, "dense": dense})):
                losses[name] = loss_of(case, dense(sparse(x)), y)
            each[name] = torch.autograd.grad(losses[name], [weight, *dense.parameters()])
        table, *dense_gradients = zip(*each.values(), strict=True)
        weight.grad = mean(table)
        copies = zip(*(dense.parameters() for dense in replicas.values()), strict=True)
        for of_trainers, gradients in zip(copies, dense_gradients, strict=True):
            found = mean(gradients) if case.accumulation == "rank" else mean_of_allreduce(gradients)
            for parameter in of_trainers:  # each its own: a run that is followed may have other ones
                parameter.grad = found.clone()
        for name, own in each.items():
            recorder.detail(step, f"part/{name}", partial(part_of, replicas, own))
        recorder.before_update(step, parameters)
        optimizer.step()
        recorder.step(step, losses, parameters)
    return recorder.trace()
