"""Planted bugs: each is put into every process before RPC starts, and the property beside it must find it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch.distributed.optim

import reference.batch_parameter_server
import reference.hybrid_ddp
import reference.parameter_server
import reference.pipeline
import reference.rnn
import reference.rpc.ddp
import reference.rpc.shard
import reference.sharded_parameter_server
import reference.training.cartpole

# Untyped, because a bug replaces methods, and what a module has from another one.
batch: Any = reference.batch_parameter_server
single: Any = reference.parameter_server
sharded: Any = reference.sharded_parameter_server
optim: Any = torch.distributed.optim
pipeline: Any = reference.pipeline
hybrid: Any = reference.hybrid_ddp
rnn: Any = reference.rnn
ddp: Any = reference.rpc.ddp
shard: Any = reference.rpc.shard
cartpole: Any = reference.training.cartpole


def forget_to_divide(role: str) -> None:
    """The batch server takes the sum for the mean."""
    right = batch.average
    batch.average = lambda model, count, buffers: right(model, 1, buffers)


def load_all_but_the_last_shard(role: str) -> None:
    """The last shard's tensors stay those of the start."""
    right = sharded.Trainer.load

    def wrong(self: Any, replies: Any) -> None:
        kept = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        right(self, replies)
        self.model.load_state_dict({name: kept[name] for name in self.parts[-1]}, strict=False)

    sharded.Trainer.load = wrong


def pull_only_once(role: str) -> None:
    """A worker keeps its first weights."""
    right = single.Worker.pull

    def wrong(self: Any) -> None:
        kept = [parameter.detach().clone() for parameter in self.local_model.parameters()]
        right(self)
        if self.pulls > 1:
            for parameter, before in zip(self.local_model.parameters(), kept, strict=True):
                parameter.data.copy_(before)

    single.Worker.pull = wrong


def record_another_order(role: str) -> None:
    """The trace has the order of workers in turn."""
    right = single.ParameterServer.wait_for_workers

    def wrong(self: Any) -> Any:
        trace = right(self)
        turns = [(kind, worker) for kind in (single.PULL, single.PUSH) for worker in range(len(self.calls.names))]
        trace.tensors["order/events"] = torch.tensor(turns * self.calls.steps)
        return trace

    single.ParameterServer.wait_for_workers = wrong


def lose_a_micro_batch(role: str) -> None:
    """The model is trained on the first micro-batch only."""
    right = shard.ParameterChain.link

    @contextmanager
    def wrong(self: Any) -> Iterator[None]:
        with right(self):
            yield
        self.links = {name: link.detach() for name, link in self.links.items()}

    shard.ParameterChain.link = wrong


def step_twice(role: str) -> None:
    """The optimizer steps twice with the same gradients."""

    right = optim.DistributedOptimizer.step

    def wrong(self: Any, context_id: int) -> None:
        right(self, context_id)
        right(self, context_id)

    optim.DistributedOptimizer.step = wrong


def lose_a_table_gradient(role: str) -> None:
    """``ps`` loses the last trainer's gradient of the table."""
    right = hybrid.mean
    if role == "ps":
        hybrid.mean = lambda gradients: right(gradients[:-1] or gradients)


EXACT = [
    ("parameter_server", pull_only_once),
    ("batch_parameter_server", forget_to_divide),
    ("sharded_parameter_server", load_all_but_the_last_shard),
    ("pipeline", lose_a_micro_batch),
    ("dist_autograd", step_twice),
    ("hybrid_ddp", lose_a_table_gradient),
]


def swap_arrivals(role: str) -> None:
    """The trace says that the last trainer came first."""
    right = batch.record_arrivals
    batch.record_arrivals = lambda recorder, round_, order: right(recorder, round_, order[::-1])


def add_in_order_of_arrival(role: str) -> None:
    """The server adds in order of arrival, whatever the case says."""
    right = batch.BatchUpdateParameterServer.update

    def wrong(self: Any) -> None:
        in_rank_order, self.trainers = self.trainers, list(self.round.joined)
        try:
            right(self)
        finally:
            self.trainers = in_rank_order

    batch.BatchUpdateParameterServer.update = wrong


def forget_the_decoder(role: str) -> None:
    right = rnn.RNNModel.parameter_rrefs
    rnn.RNNModel.parameter_rrefs = lambda self: right(self)[:-2]


def discount_nothing(role: str) -> None:
    """Rewards as if gamma were 1."""
    right = cartpole.discounted
    cartpole.discounted = lambda rewards, gamma: right(rewards, 1.0)


NATURAL = [
    ("batch_parameter_server", swap_arrivals),
    ("rnn", forget_the_decoder),
    ("reinforce", discount_nothing),
    ("batch_reinforce", discount_nothing),
]

# Bugs that show only in another order than the usual one.
REORDERED = [
    ("batch_parameter_server", add_in_order_of_arrival),
    ("sharded_parameter_server", add_in_order_of_arrival),
    ("parameter_server", record_another_order),
]
