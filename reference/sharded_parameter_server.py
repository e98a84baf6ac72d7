"""Parameters spread over several servers; trainers fetch and push them shard by shard.

Source: seed 003 (training scenarios: one parameter server or several sharded ones hold the parameters, several
trainers run the training loop). The talk says no more than that (S3.6): rounds, losses, data and models are those of
`reference.batch_parameter_server`, and a server is one of its servers that holds only a part of the model.

Roles: ``ps1`` … each own a shard, that is some of the parameters by the rule of `training.placement`, with their
gradients, momentum and batch-norm buffers; ``ps1`` also creates all shards, starts every trainer and returns the trace;
``trainer1`` … compute gradients of the whole model for batches of (batch_size, 3, image_w, image_h). In a round each
trainer sends every shard its gradients, to all at once, and gets the updated tensors as the replies of these calls.
A shard waits for all trainers, adds in rank order, takes the mean and makes a step of SGD with momentum. No step of
SGD looks at two tensors, so the bits are those of one server that holds everything, which is the twin.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed.rpc as rpc
from torch import nn
from torch.distributed.rpc import RRef

from reference import batch_parameter_server
from reference.batch_parameter_server import (
    BatchUpdateParameterServer,
    RoundFailed,
    initial_model,
    trainer_names,
)
from reference.system.error_text import cause_of
from reference.trace.case import choice, number
from reference.trace.progress import log_step
from reference.trace.trace import Recorder, Trace
from reference.training.models import PARAMETERS
from reference.training.placement import only, partition

Named = Mapping[str, torch.Tensor]

# Seconds that ps1, when it fails, allows the other servers to hear of it.
_FAREWELL = 2.0
# Seconds that a round which failed on ps1 leaves to trainers: they wait 5 s longer for their servers' replies.
_LAST_WORD = 6.0


@dataclass(frozen=True)
class Case(batch_parameter_server.Case):
    """ResNet50 over 2 servers, 3 trainers, 3 rounds of 4 images of 64 × 64; the talk names no numbers."""

    steps: int = number(3, "rounds: updates of the model", at_least=1)
    servers: int = number(2, "servers, each with a shard", at_least=1, at_most=max(PARAMETERS.values()))
    trainers: int = number(3, "trainers, and reports to a round", at_least=1, at_most=255, scales=True)
    batch_size: int = number(4, "images of a trainer's batch", at_least=2, at_most=65536)
    accumulation: str = choice("rank", help="in which order a round's gradients are added")

    def validate(self) -> None:
        super().validate()
        tensors = PARAMETERS[self.model]
        self.require(self.servers <= tensors, "servers", f"at most {tensors}, the parameters of {self.model}")


def server_names(case: Case) -> list[str]:
    return [f"ps{index}" for index in range(1, case.servers + 1)]


class ParameterServerShard(BatchUpdateParameterServer):
    """Runs on each ``ps``: its rounds are those of the whole server, on the tensors of one shard.

    Args:
        index: which shard of the case, from 0.
    """

    def __init__(self, case: Case, index: int) -> None:
        model = initial_model(case)
        super().__init__(case, only(model, partition(model, case.servers)[index]))

    def fetch(self) -> dict[str, torch.Tensor]:
        """The shard of now, by name: parameters and buffers."""
        return dict(self.get_model().state_dict())

    @staticmethod
    @rpc.functions.async_execution  # type: ignore[untyped-decorator]
    def push_and_fetch(
        shard_rref: RRef[Any], trainer: str, grads: Named, buffers: Named
    ) -> torch.futures.Future[dict[str, torch.Tensor]]:
        """Report one trainer's gradients and buffers of this shard; the reply is the shard after the round.

        Raises:
            ValueError: not the names of this shard's tensors.
            RoundFailed: as `BatchUpdateParameterServer.update_and_fetch_model`.
        """
        shard = shard_rref.local_value()
        check_names(grads, dict(shard.model.named_parameters()))
        check_names(buffers, dict(shard.model.named_buffers()))
        report = list(grads.values()), list(buffers.values())
        reply = BatchUpdateParameterServer.update_and_fetch_model(shard_rref, trainer, *report)
        return reply.then(_tensors_of)  # type: ignore[no-any-return]

    def recorded(self) -> dict[str, torch.Tensor]:
        """What this shard puts into the trace."""
        with self.lock:
            return dict(self.recorder.tensors)


def _tensors_of(future: torch.futures.Future[nn.Module]) -> dict[str, torch.Tensor]:
    return dict(future.wait().state_dict())


def check_names(got: Named, wanted: Named) -> None:
    """Raises ValueError unless they are the same names in the same order."""
    if list(got) != list(wanted):
        raise ValueError(f"tensors {', '.join(got) or 'none'}, wanted {', '.join(wanted) or 'none'}")


class Trainer(batch_parameter_server.Trainer):
    """Runs on each trainer, with an RRef to every shard, in the servers' order."""

    def __init__(self, case: Case, name: str, shard_rrefs: Sequence[RRef[Any]]) -> None:
        super().__init__(case, name)
        self.shard_rrefs = shard_rrefs
        self.model = initial_model(case).to(self.device)
        self.parts = partition(self.model, case.servers)

    def train(self) -> list[torch.Tensor]:
        """All rounds; returns this trainer's losses.

        Raises:
            RoundFailed: a server refused or is gone; says which.
        """
        losses: list[torch.Tensor] = []
        self.fetch()
        for inputs, labels in self.get_next_batch():
            self.model.zero_grad()
            losses.append(self.gradients(self.model, inputs, labels))
            self.push_and_fetch()
            log_step(len(losses), self.case.steps, float(losses[-1]))
        return losses

    def fetch(self) -> None:
        """Take every shard's tensors, asked for all at once."""
        self.load([rref.rpc_async(timeout=self.case.timeout).fetch() for rref in self.shard_rrefs])

    def push_and_fetch(self) -> None:
        """Send every shard its gradients and buffers, then take its tensors after the round."""
        method = ParameterServerShard.push_and_fetch
        limit = self.case.timeout + 5  # the server's own limit comes first, and says who is missing
        self.load(
            [
                rpc.rpc_async(rref.owner(), method, args=(rref, self.name, *self.report(part)), timeout=limit)
                for rref, part in zip(self.shard_rrefs, self.parts, strict=True)
            ]
        )

    def report(self, part: Sequence[str]) -> tuple[Named, Named]:
        """Gradients and buffers of one shard, by name, on the CPU."""
        grads = {name: p.grad.cpu() for name, p in self.model.named_parameters() if name in part and p.grad is not None}
        return grads, {name: buffer.cpu() for name, buffer in self.model.named_buffers() if name in part}

    def load(self, replies: Sequence[torch.futures.Future[Named]]) -> None:
        """Wait for all shards before any tensor changes: a model must not be of two rounds."""
        shards = [reply_of(rref.owner_name(), reply) for rref, reply in zip(self.shard_rrefs, replies, strict=True)]
        tensors = {name: tensor for shard in shards for name, tensor in shard.items()}
        self.model.load_state_dict(tensors)


def reply_of(server: str, reply: torch.futures.Future[Named]) -> Named:
    """What a server answered. Raises RoundFailed, with the server's name."""
    try:
        return reply.wait()
    except Exception as error:
        raise RoundFailed(f"{server}: {reason_of(error)}") from error


def reason_of(error: Exception) -> str:
    """What an error says, without the layers that RPC and futures put around a `RoundFailed`."""
    text = cause_of(error)
    inner = text.rpartition(RoundFailed.__name__)[2]
    return inner[2:-2] if inner.startswith(("('", '("')) else inner.removeprefix(": ")


def run_trainer(shard_rrefs: Sequence[RRef[Any]], case: Case, name: str) -> list[torch.Tensor]:
    """Runs on a trainer, called by ``ps1``."""
    return Trainer(case, name, shard_rrefs).train()


@dataclass(frozen=True)
class RunFirstPs:
    """What role ``ps1`` runs.

    Raises:
        RoundFailed: a trainer or a server was lost or is missing, or failed. Says which, as soon as it is known.
    """

    case: Case

    def __call__(self) -> Trace:
        servers = server_names(self.case)
        # The own one without a call: if that fails, local_value() waits for it for ever.
        shard_rrefs = [RRef(ParameterServerShard(self.case, 0))]
        for index, server in enumerate(servers[1:], start=1):
            made = rpc.remote(server, ParameterServerShard, args=(self.case, index), timeout=self.case.timeout)
            shard_rrefs.append(made)
        try:
            return self.train(dict(zip(servers, shard_rrefs, strict=True)))
        except Exception as error:
            end_rounds(shard_rrefs, str(error))
            raise

    def train(self, shard_rrefs: Mapping[str, RRef[Any]]) -> Trace:
        """Start the trainers, wait for each, and put every server's part of the trace together."""
        recorder = Recorder(self.case, {})
        for name, losses in self.run_trainers(list(shard_rrefs.values())).items():
            for step, loss in enumerate(losses):
                recorder.put(f"{step:04d}/loss", {name: loss})
        parts = {server: rref.rpc_async(timeout=self.case.timeout).recorded() for server, rref in shard_rrefs.items()}
        for server, part in parts.items():
            recorder.tensors.update(reply_of(server, part))
        return recorder.trace()

    def run_trainers(self, shard_rrefs: list[RRef[Any]]) -> dict[str, list[torch.Tensor]]:
        """Every trainer's losses."""
        # Also ps1's own rounds: if every trainer is silent, nobody else says so.
        server = shard_rrefs[0].local_value()
        futures = {}
        for name in trainer_names(self.case):
            # Without a limit of its own: every round has one.
            futures[name] = rpc.rpc_async(name, run_trainer, args=(shard_rrefs, self.case, name), timeout=0)
            futures[name].add_done_callback(partial(_trainer_ended, server, name))
        for _ in futures:
            name = _next_ended(server.events)
            try:
                futures[name].value()
            except Exception as error:
                raise RoundFailed(f"{name} failed: {reason_of(error)}") from error
        return {name: future.value() for name, future in futures.items()}


def _trainer_ended(server: BatchUpdateParameterServer, name: str, _: object) -> None:
    server.ended.add(name)
    server.events.put(name)


def _next_ended(events: queue.SimpleQueue[str | RoundFailed]) -> str:
    """The next trainer to end. Raises ps1's `RoundFailed` if all are silent: else a trainer may know better who is."""
    event = events.get()
    if isinstance(event, str):
        return event
    failure = event
    with suppress(queue.Empty):
        while not isinstance(event, str):
            event = events.get(timeout=_LAST_WORD)
        return event
    raise failure


def end_rounds(shard_rrefs: Sequence[RRef[Any]], reason: str) -> None:
    """End the wait of every trainer at every server that can still be reached."""
    told = []
    for rref in shard_rrefs:
        with suppress(Exception):  # a server that is gone: the reason says so
            told.append(rpc.rpc_async(rref.owner(), fail, args=(rref, reason), timeout=_FAREWELL))
    for future in told:
        with suppress(Exception):
            future.wait()


def fail(shard_rref: RRef[Any], reason: str) -> None:
    """Runs on each server."""
    shard_rref.local_value().fail(reason)


def serve() -> None:
    """What trainers and the other servers run: they answer until the common shutdown."""


def roles(case: Case) -> dict[str, Callable[[], object]]:
    first: dict[str, Callable[[], object]] = {"ps1": RunFirstPs(case)}
    return {**first, **dict.fromkeys([*server_names(case)[1:], *trainer_names(case)], serve)}


def train_locally(case: Case, replay: Trace | None = None) -> Trace:
    """The twin: plain training, as for one server that holds all parameters. It knows nothing of shards."""
    return batch_parameter_server.train_locally(case, replay)
