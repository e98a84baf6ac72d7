"""Errata S2.2 to S2.9: the batch-updating parameter server."""

from __future__ import annotations

import threading
from typing import Any

import torch
import torch.distributed.rpc as rpc
from torch import nn, optim
from torch.distributed.rpc import RRef

from tests.errata.listings import outcome_of, shows

Future = torch.futures.Future[Any]


class BatchUpdateParameterServer:
    """The published server. ``keep_zeros`` repairs S2.2, so that a test can look at a second round."""

    def __init__(self, batch_update_size: int, model: nn.Module | None = None, *, keep_zeros: bool = True) -> None:
        self.model = model or nn.Linear(1, 1, bias=False)
        self.lock = threading.Lock()
        self.future_model: Future = torch.futures.Future()
        self.batch_update_size = batch_update_size
        self.curr_update_size = 0
        self.keep_zeros = keep_zeros
        self.optimizer = optim.SGD(self.model.parameters(), lr=1.0)
        for p in self.model.parameters():
            p.grad = torch.zeros_like(p)

    @staticmethod
    @rpc.functions.async_execution  # type: ignore[untyped-decorator]
    def update_and_fetch_model(ps_rref: RRef[Any], grads: list[torch.Tensor]) -> Future:
        self = ps_rref.local_value()
        with self.lock:
            self.curr_update_size += 1
            for p, g in zip(self.model.parameters(), grads, strict=True):
                p.grad += g
            fut: Future = self.future_model
            if self.curr_update_size >= self.batch_update_size:
                for p in self.model.parameters():
                    p.grad /= self.batch_update_size
                self.curr_update_size = 0
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=not self.keep_zeros)
                fut.set_result(self.model)
                self.future_model = torch.futures.Future()
        return fut

    def count(self) -> int:
        return self.curr_update_size

    def statistics(self) -> list[Any]:
        return statistics(self.model)


def gradient(value: float) -> list[torch.Tensor]:
    return [torch.full((1, 1), value)]


def report(server: BatchUpdateParameterServer, grads: list[torch.Tensor]) -> Future:
    """Report on the server's own role, without a transport."""
    update: Any = BatchUpdateParameterServer.update_and_fetch_model
    future: Future = update(RRef(server), grads)
    return future


@shows("S2.2", gives=("TypeError", "TypeError(\"unsupported operand type(s) for +=: 'NoneType' and 'Tensor'\")", 1))
def second_round_of_one_trainer() -> tuple[str, str, int]:
    """Return type and text of the trainer's error, and the server's counter afterwards."""
    ps_rref = rpc.remote("worker1", BatchUpdateParameterServer, args=(1,), kwargs={"keep_zeros": False})
    update = BatchUpdateParameterServer.update_and_fetch_model
    rpc.rpc_sync("worker1", update, args=(ps_rref, gradient(1)))
    try:
        rpc.rpc_sync("worker1", update, args=(ps_rref, gradient(1)))
    except Exception as error:
        return type(error).__name__, str(error).splitlines()[1], ps_rref.rpc_sync().count()
    return "", "", 0


@shows("S2.3", gives=[True, True])
def replies_under_the_lock() -> list[bool]:
    """Return whether the lock was held while each waiting trainer's answer was made, as in S2.32."""
    server, held = BatchUpdateParameterServer(3), list[bool]()
    for _ in range(2):
        report(server, gradient(1)).then(lambda _: held.append(server.lock.locked()))
    report(server, gradient(1)).wait()
    return held


@shows("S2.5", gives=[[0.0, 0.0], [-1.0, 0.0], [-1.0, -1.0]])
def a_reply_on_its_way() -> list[list[float]]:
    """Return two weights of a pickled reply: when pickled, in the middle of the next update, and after it."""
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    for p in model.parameters():
        nn.init.zeros_(p)
    _, tensors = rpc.internal._internal_rpc_pickler.serialize(model)
    seen = [[tensor.item() for tensor in tensors]]
    for layer in model:
        report(BatchUpdateParameterServer(1, layer), gradient(1)).wait()
        seen.append([tensor.item() for tensor in tensors])
    return seen


class Failing(BatchUpdateParameterServer):
    def __init__(self) -> None:
        super().__init__(2)
        self.optimizer.step = self.refuse  # type: ignore[method-assign, assignment]

    def refuse(self) -> None:
        raise ValueError("no step today")


@shows("S2.6", gives={"last": "ValueError: no step today", "first answered": False, "left in .grad": 1.0})
def a_failing_last_report() -> dict[str, object]:
    """Return what the last of two trainers gets, whether the first ever gets an answer, and the state of the next
    round."""
    server = Failing()
    first = report(server, gradient(1))
    last = outcome_of(lambda: report(server, gradient(1)))
    (weight,) = server.model.parameters()
    assert weight.grad is not None
    return {"last": last, "first answered": first.done(), "left in .grad": weight.grad.item()}


@shows("S2.8", gives={"trainer": [2, True, True], "server": [0, False, False]})
def statistics_after_two_rounds() -> dict[str, list[Any]]:
    """Return the batches that the trainers' models tracked, and whether mean and variance moved; the same for the
    server's."""
    ps_rref = rpc.remote("worker1", BatchUpdateParameterServer, args=(1, nn.BatchNorm1d(2)))
    update = BatchUpdateParameterServer.update_and_fetch_model
    model, tracked, moved = nn.BatchNorm1d(2), 0, [False, False]
    for _ in range(2):
        model(torch.tensor([[1.0, 2.0], [5.0, 8.0]])).square().sum().backward()
        batches, *moved = statistics(model)
        tracked += batches
        model = rpc.rpc_sync("worker1", update, args=(ps_rref, [p.grad for p in model.parameters()]))
    return {"trainer": [tracked, *moved], "server": ps_rref.rpc_sync().statistics()}


def statistics(norm: Any) -> list[Any]:
    mean, variance = norm.running_mean, norm.running_var
    return [norm.num_batches_tracked.item(), bool(mean.ne(0).all()), bool(variance.ne(1).all())]


@shows("S2.9", gives={"two": True, "three": False})
def same_weights_in_both_orders_of_arrival() -> dict[str, bool]:
    """Return by the number of trainers whether they are. In float32 1 is lost beside 2**24, unless that goes first."""
    big = 2.0**24
    return {
        "two": weight_after(1.0, big) == weight_after(big, 1.0),
        "three": weight_after(1.0, big, -big) == weight_after(big, -big, 1.0),
    }


def weight_after(*gradients: float) -> float:
    server = BatchUpdateParameterServer(len(gradients))
    weight: Any = server.model.weight
    nn.init.zeros_(weight)
    for each in gradients:
        report(server, gradient(each))
    return float(weight.item())
