"""Train with parameters spread over several servers: trainers fetch and push them shard by shard.

Source: seed 003 (training scenarios: one parameter server or several sharded ones hold the parameters, several
trainers run the training loop). The talk says no more than that (S3.6). Rounds, losses, data and models are those of
`reference.batch_parameter_server`; each server is one of its servers, but holds only a part of the model.

Roles: ``ps1`` … each own a shard: some of the parameters, by the rule of `training.placement`, with their gradients,
momentum and batch-norm buffers. ``ps1`` also creates all shards, starts every trainer and returns the trace.
``trainer1`` … compute gradients of the whole model for batches of (batch_size, 3, image_w, image_h). In a round each
trainer sends its gradients to all shards at once, and gets the updated tensors as the replies of these calls. A shard
waits for all trainers, adds in rank order, takes the mean and makes a step of SGD with momentum. SGD updates each
tensor by itself, so the bits are those of one server that holds all tensors, which is the twin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import torch
import torch.distributed.rpc as rpc
from torch import nn
from torch.distributed.rpc import RRef

from reference import batch_parameter_server
from reference.batch_parameter_server import BatchUpdateParameterServer, RoundFailed, initial_model, trainer_names
from reference.roles import Roles, numbered
from reference.system.text import cause_of
from reference.trace.case import choice_field, number_field
from reference.trace.checkpoint import resume, save
from reference.trace.recorder import Recorder
from reference.trace.trace import Trace
from reference.training.models import PARAMETERS
from reference.training.placement import only, partition

Named = Mapping[str, torch.Tensor]
# --- The lesson: each server holds a part of the model, each trainer all of it ---------------------------------------


class ParameterServerShard(BatchUpdateParameterServer):
    """Runs on each ``ps``: makes the rounds of `BatchUpdateParameterServer` on the tensors of one shard.

    Args:
        index: which shard of the case, from 0.
    """

    def __init__(self, case: Case, index: int) -> None:
        model = initial_model(case)
        super().__init__(case, only(model, partition(model, case.servers)[index]))

    def fetch(self) -> dict[str, torch.Tensor]:
        """Return the shard's current parameters and buffers by name."""
        return dict(self.get_model().state_dict())

    @staticmethod
    @rpc.functions.async_execution  # type: ignore[untyped-decorator]
    def push_and_fetch(
        shard_rref: RRef[Any], trainer: str, grads: Named, buffers: Named
    ) -> torch.futures.Future[dict[str, torch.Tensor]]:
        """Report one trainer's gradients and buffers of this shard for a round; the reply is the shard after the round.

        Raises:
            KeyError: a tensor of this shard is missing; the round goes on without this report.
            RoundFailed: as `BatchUpdateParameterServer.update_and_fetch_model`.
        """
        model = shard_rref.local_value().model
        in_order = [grads[name] for name, _ in model.named_parameters()]
        statistics = [buffers[name] for name, _ in model.named_buffers()]
        reply = BatchUpdateParameterServer.update_and_fetch_model(shard_rref, trainer, in_order, statistics)
        return reply.then(_tensors_of)  # type: ignore[no-any-return]

    def recorded(self) -> dict[str, torch.Tensor]:
        """Return this shard's part of the trace after the last round."""
        with self.lock, closing(self.round):
            return dict(self.recorder.tensors)


def _tensors_of(future: torch.futures.Future[nn.Module]) -> dict[str, torch.Tensor]:
    return dict(future.wait().state_dict())


class Trainer(batch_parameter_server.Trainer):
    """Runs on each trainer: has an RRef to every shard, in the servers' order."""

    def __init__(self, case: Case, name: str, shard_rrefs: Sequence[RRef[Any]]) -> None:
        super().__init__(case, name)
        self.shard_rrefs = shard_rrefs
        self.model = initial_model(case).to(self.device)
        self.parts = partition(self.model, case.servers)

    def train(self) -> Named:
        """Train for all rounds and return this trainer's part of the trace, its losses.

        Raises:
            RoundFailed: a server refused a report or is gone. Says which.
        """
        start = resume(trace=self.recorder)
        self.fetch()
        for step, (inputs, labels) in islice(enumerate(self.get_next_batch()), start, None):
            self.model.zero_grad()
            loss = self.gradients(self.model, inputs, labels)
            self.push_and_fetch()
            self.recorder.step(step, {self.name: loss}, {})
            save(step + 1, trace=self.recorder)
        return self.recorder.tensors

    def fetch(self) -> None:
        """Ask all shards at once for their tensors, and load them."""
        self.load([rref.rpc_async(timeout=self.case.timeout).fetch() for rref in self.shard_rrefs])

    def push_and_fetch(self) -> None:
        """Send every shard its gradients and buffers of a round, then load its tensors after the round."""
        method, limit = ParameterServerShard.push_and_fetch, self.case.reply_timeout
        replies = [
            rpc.rpc_async(rref.owner(), method, args=(rref, self.name, *self.report(part)), timeout=limit)
            for rref, part in zip(self.shard_rrefs, self.parts, strict=True)
        ]
        self.load(replies)

    def report(self, part: Sequence[str]) -> tuple[Named, Named]:
        """Make the report for one shard: its gradients and buffers by name, on the CPU."""
        grads = {name: p.grad.cpu() for name, p in self.model.named_parameters() if name in part and p.grad is not None}
        return grads, {name: buffer.cpu() for name, buffer in self.model.named_buffers() if name in part}

    def load(self, replies: Sequence[torch.futures.Future[Named]]) -> None:
        """Wait for all shards before changing any tensor, so that the model never mixes two rounds."""
        shards = [reply_of(rref.owner_name(), reply) for rref, reply in zip(self.shard_rrefs, replies, strict=True)]
        tensors = {name: tensor for shard in shards for name, tensor in shard.items()}
        self.model.load_state_dict(tensors)


def reply_of(server: str, reply: torch.futures.Future[Named]) -> Named:
    """Wait for a server's answer. Raises RoundFailed, with the server's name."""
    try:
        return reply.wait()
    except Exception as error:
        raise RoundFailed(f"{server}: {cause_of(error)}") from error


# --- Roles and Case --------------------------------------------------------------------------------------------------


def run_trainer(shard_rrefs: Sequence[RRef[Any]], case: Case, name: str) -> Named:
    """Runs on a trainer; ``ps1`` calls it."""
    return Trainer(case, name, shard_rrefs).train()


def run_first_ps(case: Case) -> Trace:
    """Runs on ``ps1``: make all shards, train, and put every server's part of the trace together.

    Raises:
        RoundFailed: a trainer or a server failed, was lost or is missing. Says which, as soon as it is known.
    """
    # The own shard is made without a call, because local_value() would wait forever for a call that failed.
    own = ParameterServerShard(case, 0)
    with closing(own.round):
        shard_rrefs = {"ps1": RRef(own)}
        for index, server in enumerate(server_names(case)[1:], start=1):
            made = rpc.remote(server, ParameterServerShard, args=(case, index), timeout=case.timeout)
            shard_rrefs[server] = made
        futures = {
            # Without a limit of its own: every round has one.
            name: rpc.rpc_async(name, run_trainer, args=([*shard_rrefs.values()], case, name), timeout=0)
            for name in own.trainers
        }
        recorder = Recorder(case, {})
        for tensors in own.round.gather(futures).values():
            recorder.tensors.update(tensors)
        parts = {server: rref.rpc_async(timeout=case.timeout).recorded() for server, rref in shard_rrefs.items()}
        for server, part in parts.items():
            recorder.tensors.update(reply_of(server, part))
        return recorder.trace()


def roles(case: Case) -> Roles:
    return Roles({"ps1": partial(run_first_ps, case)}, serving=[*server_names(case)[1:], *trainer_names(case)])


@dataclass(frozen=True)
class Case(batch_parameter_server.Case):
    """ResNet50 over 2 servers, 3 trainers, 3 rounds of 4 images of 64 × 64; the talk names no numbers."""

    steps: int = number_field(3, "number of rounds, each with one update of the model", at_least=1)
    servers: int = number_field(2, "number of servers, each with a shard", at_least=1, at_most=max(PARAMETERS.values()))
    trainers: int = number_field(3, "trainers, and reports to a round", at_least=1, at_most=255, scales=True)
    batch_size: int = number_field(4, "number of images in a trainer's batch", at_least=2, at_most=65536)
    accumulation: str = choice_field("rank", help="in which order a round's gradients are added")

    def validate(self) -> None:
        super().validate()
        tensors = PARAMETERS[self.model]
        self.require(self.servers <= tensors, "servers", f"at most {tensors}, the parameters of {self.model}")


def server_names(case: Case) -> list[str]:
    return numbered("ps", case.servers)


# --- The twin: the same in one process -------------------------------------------------------------------------------


def train_locally(case: Case, replay: Trace | None = None) -> Trace:
    """The twin: train as one server that holds all parameters would. It knows nothing of shards."""
    return batch_parameter_server.train_locally(case, replay)
