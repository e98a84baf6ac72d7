"""Planted bugs: each is put into every process before RPC starts, and the property beside it must find it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

import reference.batch_parameter_server as batch
import reference.dist_autograd
import reference.hybrid_ddp
import reference.parameter_server as single
import reference.rnn
import reference.sharded_parameter_server as sharded
import reference.training.cartpole
from reference.pipeline import DistResNet50
from reference.rpc import ddp
from reference.rpc.shard import ParameterChain


def forget_to_divide(role: str) -> None:
    """The batch server takes the sum for the mean."""
    right: Any = batch.average
    batch.average = lambda model, count, buffers: right(model, 1, buffers)


def lose_a_gradient(role: str) -> None:
    """The server loses the gradients of all trainers except the first."""
    right: Any = batch.accumulate

    def wrong(model: Any, grads: Any) -> None:
        if all(p.grad is None for p in model.parameters()):
            right(model, grads)

    batch.accumulate = wrong


def reply_with_stale_parameters(role: str) -> None:
    """The server replies with the model from before the round."""
    right: Any = batch.BatchUpdateParameterServer.update

    def wrong(self: Any) -> None:
        before, swap = copy.deepcopy(self.model), type(self.round).swap_future
        right(self)
        self.round.swap_future = lambda: Replying(swap(self.round), before)

    batch.BatchUpdateParameterServer.update = wrong  # type: ignore[method-assign]


class Replying:
    """A future whose result is ``value``, whatever is set."""

    def __init__(self, future: Any, value: object) -> None:
        self.future, self.value = future, value

    def set_result(self, _: object) -> None:
        self.future.set_result(self.value)


def keep_no_momentum(role: str) -> None:
    right: Any = batch.sgd
    batch.sgd = lambda case, model: torch.optim.SGD(model.parameters(), lr=right(case, model).param_groups[0]["lr"])


def load_all_but_the_last_shard(role: str) -> None:
    """The last shard's tensors stay those of the start."""
    right: Any = sharded.Trainer.load

    def wrong(self: Any, replies: Any) -> None:
        kept = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        right(self, replies)
        self.model.load_state_dict({name: kept[name] for name in self.parts[-1]}, strict=False)

    sharded.Trainer.load = wrong  # type: ignore[method-assign]


def pull_only_once(role: str) -> None:
    """A worker keeps its first weights."""
    right: Any = single.Worker.pull

    def wrong(self: Any) -> None:
        kept = [parameter.detach().clone() for parameter in self.local_model.parameters()]
        right(self)
        if self.pulls > 1:
            for parameter, before in zip(self.local_model.parameters(), kept, strict=True):
                parameter.data.copy_(before)

    single.Worker.pull = wrong  # type: ignore[method-assign]


def record_another_order(role: str) -> None:
    """The trace has the order of workers in turn."""
    right: Any = single.ParameterServer.wait_for_workers

    def wrong(self: Any) -> Any:
        trace = right(self)
        turns = [(kind, worker) for kind in (single.PULL, single.PUSH) for worker in range(len(self.calls.names))]
        trace.tensors["order/events"] = torch.tensor(turns * self.calls.steps)
        return trace

    single.ParameterServer.wait_for_workers = wrong  # type: ignore[method-assign]


def lose_a_micro_batch(role: str) -> None:
    """The model is trained on the first micro-batch only."""
    right: Any = ParameterChain.link

    @contextmanager
    def wrong(self: Any) -> Iterator[None]:
        with right(self):
            yield
        self.links = {name: link.detach() for name, link in self.links.items()}

    ParameterChain.link = wrong  # type: ignore[method-assign]


def forget_the_second_shard(role: str) -> None:
    """The optimizer gets only the first shard's parameters."""
    right: Any = DistResNet50.parameter_rrefs
    DistResNet50.parameter_rrefs = lambda self: right(self)[: len(right(self)) // 2]  # type: ignore[method-assign]


def step_twice(role: str) -> None:
    """The optimizer steps twice with the same gradients."""

    class Twice(reference.dist_autograd.DistributedOptimizer):
        def step(self, context_id: int) -> None:
            super().step(context_id)
            super().step(context_id)

    reference.dist_autograd.DistributedOptimizer = Twice  # type: ignore[misc]


def sum_replicas(role: str) -> None:
    """The gradients of the table, and of the dense part in rank order, are summed and not averaged."""
    right: Any = ddp.mean

    def wrong(gradients: Any) -> Any:
        return right(gradients) * len(gradients)

    ddp.mean = reference.hybrid_ddp.mean = wrong


def lose_a_table_gradient(role: str) -> None:
    """``ps`` loses the last trainer's gradient of the table."""
    right: Any = reference.hybrid_ddp.mean
    if role == "ps":
        reference.hybrid_ddp.mean = lambda gradients: right(gradients[:-1] or gradients)


EXACT = [
    ("parameter_server", pull_only_once),
    ("parameter_server", record_another_order),
    ("batch_parameter_server", forget_to_divide),
    ("batch_parameter_server", lose_a_gradient),
    ("batch_parameter_server", reply_with_stale_parameters),
    ("batch_parameter_server", keep_no_momentum),
    ("sharded_parameter_server", forget_to_divide),
    ("sharded_parameter_server", load_all_but_the_last_shard),
    ("pipeline", lose_a_micro_batch),
    ("pipeline", forget_the_second_shard),
    ("dist_autograd", step_twice),
    ("hybrid_ddp", sum_replicas),
    ("hybrid_ddp", lose_a_table_gradient),
]


def swap_arrivals(role: str) -> None:
    """The trace says that the last trainer came first."""
    right: Any = batch.record_arrivals
    batch.record_arrivals = lambda recorder, round_, order: right(recorder, round_, order[::-1])


def add_in_order_of_arrival(role: str) -> None:
    """The server adds in order of arrival, whatever the case says."""
    right: Any = batch.BatchUpdateParameterServer.update

    def wrong(self: Any) -> None:
        in_rank_order, self.trainers = self.trainers, list(self.round.joined)
        try:
            right(self)
        finally:
            self.trainers = in_rank_order

    batch.BatchUpdateParameterServer.update = wrong  # type: ignore[method-assign]


def forget_the_decoder(role: str) -> None:
    right: Any = reference.rnn.RNNModel.parameter_rrefs
    reference.rnn.RNNModel.parameter_rrefs = lambda self: right(self)[:-2]  # type: ignore[method-assign]


def discount_nothing(role: str) -> None:
    """Rewards as if gamma were 1."""
    right: Any = reference.training.cartpole.discounted
    reference.training.cartpole.discounted = lambda rewards, gamma: right(rewards, 1.0)


NATURAL = [
    ("batch_parameter_server", swap_arrivals),
    ("sharded_parameter_server", lose_a_gradient),
    ("parameter_server", pull_only_once),
    ("hybrid_ddp", lose_a_table_gradient),
    ("rnn", forget_the_decoder),
    ("reinforce", discount_nothing),
    ("batch_reinforce", discount_nothing),
    ("pipeline", lose_a_micro_batch),
]

# Bugs that show only in another order than the usual one.
REORDERED = [
    ("batch_parameter_server", add_in_order_of_arrival),
    ("sharded_parameter_server", add_in_order_of_arrival),
    ("parameter_server", record_another_order),
]


def apply_again(role: str) -> None:
    """The server applies an update again if it arrives twice."""
    right: Any = single.WorkerCalls.count

    def wrong(self: Any, kind: int, worker: str, number: int) -> bool:
        right(self, kind, worker, number)
        return True

    single.WorkerCalls.count = wrong  # type: ignore[method-assign]
