"""Errata S4: the pipeline."""

from __future__ import annotations

import math
import threading
from functools import partial
from typing import Any

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch import nn
from torch.distributed.rpc import RRef

from reference.training.vision import Bottleneck
from reference.world import launch
from tests.errata.listings import outcome_of, shows


@shows("S4.3", gives={"split": [8, 4, 2, 1], "chunk": [1, 2, 4, 8]})
def micro_batches_of_eight() -> dict[str, list[int]]:
    """Return how many micro-batches `num_split` of 1, 2, 4 and 8 makes: published, and repaired."""
    xs, numbers = torch.zeros(8, 3), (1, 2, 4, 8)
    return {"split": [len(xs.split(n, dim=0)) for n in numbers], "chunk": [len(xs.chunk(n, dim=0)) for n in numbers]}


class Shard:
    """One published shard around a layer: fetch the input, then compute under the lock."""

    def __init__(self, scale: float = 1.0) -> None:
        self._lock = threading.Lock()
        self.scale = torch.tensor(scale, requires_grad=True)

    def forward(self, x_rref: RRef[torch.Tensor]) -> torch.Tensor:
        x = x_rref.to_here()
        with self._lock:
            return self.scale * x


TIMED_OUT = "RPCErr:1:RPC ran for more than set timeout (1000 ms) and will now be marked with an error"


@shows("S4.5", gives={"batch norm": False, "without": True})
def micro_batches_against_the_batch() -> dict[str, bool]:
    """Return whether two halves give what the batch gives."""
    return {"batch norm": same_by_halves(nn.BatchNorm1d(1)), "without": same_by_halves(nn.Identity())}


def same_by_halves(module: nn.Module) -> bool:
    x = torch.tensor([[0.0], [2.0], [4.0], [6.0]])
    return torch.equal(torch.cat([module(half) for half in x.chunk(2)]), module(x))


@shows("S4.6", gives=[[0.59, 0.55], [1.0, 1.0]])
def two_orders_of_micro_batches() -> list[list[float]]:
    """Take micro-batches with means 1 and 5 in both orders. Return running means, then the outputs' mean squares."""
    x = torch.tensor([[0.0], [2.0]]), torch.tensor([[4.0], [6.0]])
    norms = [nn.BatchNorm1d(1) for _ in range(2)]
    squares = [[norm(each).square().mean() for each in order] for norm, order in zip(norms, (x, x[::-1]), strict=True)]
    means = [round(norm.running_mean.item(), 6) for norm in norms]  # type: ignore[union-attr]
    return [means, [round(torch.stack(each).mean().item(), 4) for each in squares]]


class ResNetBase(nn.Module):
    def __init__(self, block: Any, inplanes: int, num_classes: int = 1000, groups: int = 1) -> None:
        super().__init__()


class ResNetShard(ResNetBase):
    def __init__(self, device: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(None, 64, num_classes=1000, *args, **kwargs)  # type: ignore[misc]  # noqa: B026 (as published)


@shows(
    "S4.8",
    gives=[
        "TypeError: ResNetBase.__init__() got multiple values for argument 'num_classes'",
        "TypeError: tests.errata.s4.ResNetBase.__init__() got multiple values for keyword argument 'num_classes'",
    ],
)
def arguments_for_a_shard() -> list[str]:
    return [outcome_of(lambda: ResNetShard("cpu", 10)), outcome_of(lambda: ResNetShard("cpu", num_classes=10))]


@shows("S4.9", gives={"with the loop": 1.0, "without": 0.8})
def width_of_the_last_convolutions() -> dict[str, float]:
    """Return the standard deviation of a shard's last convolution, as a multiple of kaiming's sqrt(2 / fan_out)."""
    torch.manual_seed(0)
    first, second = Bottleneck(512, 128), Bottleneck(2048, 512)
    for m in first.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
    return {"with the loop": relative_width(first.conv3), "without": relative_width(second.conv3)}


def relative_width(conv: nn.Conv2d) -> float:
    return round(conv.weight.std().item() / math.sqrt(2 / conv.out_channels), 1)


@shows("S4.10", raises=("RuntimeError", "TypeError: cannot pickle '_thread.lock' object"))
def a_fetched_shard() -> None:
    rpc.remote("worker1", Shard).to_here()


def backward_of_micro_batches(together: bool) -> float:
    """Return the gradient of two micro-batches through worker1; a backward that hangs gets one second. On worker0."""
    shard = rpc.remote("worker1", Shard, args=(2.0,))
    x = torch.tensor(3.0, requires_grad=True)
    with dist_autograd.context() as context_id:
        losses = [shard.rpc_sync().forward(RRef(x)) for _ in range(2)]
        if together:
            dist_autograd.backward(context_id, losses)  # type: ignore[attr-defined]
        else:
            rpc._set_rpc_timeout(1)  # type: ignore[attr-defined]
            for loss in losses:
                dist_autograd.backward(context_id, [loss])  # type: ignore[attr-defined]
        return dist_autograd.get_gradients(context_id)[x].item()  # type: ignore[attr-defined]


def end_of_backward(together: bool) -> str:
    return outcome_of(partial(backward_of_micro_batches, together))


@shows(
    "S4.12", gives={"one by one": f"RuntimeError: Error on Node 0: {TIMED_OUT}", "together": "returned 4.0"}, here=True
)
def backwards_in_one_context() -> dict[str, str]:
    """Run one backward for each micro-batch, or one for both."""
    ends = {}
    for name, together in (("one by one", False), ("together", True)):
        with launch(["worker0", "worker1", "worker2"]) as world:
            ends[name] = world.call("worker0", end_of_backward, together)
    return ends
