"""Functions of roles in the tests of CUDA tensors: `to` is the role that is called. All use the first GPU."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch import nn, optim
from torch.distributed.nn.api.remote_module import RemoteModule
from torch.distributed.optim import DistributedOptimizer
from torch.distributed.rpc import RRef

from tests.support.roles_futures import completed

GPU = "cuda:0"
WIDTH, PASSES, DEPTH = 1024, 20, 4


# Executed on the role that is called.


def numbers() -> torch.Tensor:
    return torch.arange(3.0, device=GPU)


def placed(x: torch.Tensor) -> str:
    return str(x.device)


def fetched(rref: RRef[torch.Tensor]) -> str:
    return str(rref.to_here().device)


@torch.jit.script
def scripted(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def later() -> torch.futures.Future[torch.Tensor]:
    return completed(numbers())


class Layers(nn.Module):
    """``DEPTH`` large layers on the GPU, alike on every role."""

    def __init__(self, bring_back: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH))).to(GPU)
        self.bring_back = bring_back

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.cuda.synchronize()  # the optimizer's step had another stream
        y: torch.Tensor = self.layers(x.to(GPU))
        return y.cpu() if self.bring_back else y

    def parameter_rrefs(self) -> list[RRef[Any]]:
        return [RRef(each) for each in self.parameters()]

    def values(self) -> list[torch.Tensor]:
        torch.cuda.synchronize()
        return [each.detach().cpu() for each in self.parameters()]


# Attempts, executed on the caller.


def sends(to: str) -> str:
    device: str = rpc.rpc_sync(to, placed, args=(numbers(),))
    return device


def gets(to: str) -> str:
    return placed(rpc.rpc_sync(to, numbers))


def gets_scripted(to: str) -> str:
    return placed(rpc.rpc_sync(to, scripted, args=(numbers(),)))


def fetches(to: str) -> str:
    return placed(rpc.remote(to, numbers).to_here())


def shares(to: str) -> str:
    device: str = rpc.rpc_sync(to, fetched, args=(RRef(numbers()),))
    return device


def gets_later(to: str) -> str:
    return placed(rpc.rpc_sync(to, later))


def goes_on(to: str) -> list[float]:
    found: list[float] = rpc.rpc_async(to, numbers).then(lambda future: (2 * future.value()).tolist()).wait()
    return found


def uses_remote_module(to: str) -> str:
    module = RemoteModule(f"{to}/{GPU}", nn.Linear, args=(3, 3))
    return type(module.forward(torch.ones(3))).__name__


def gets_parameter(to: str) -> str:
    rref = rpc.remote(to, nn.Linear, args=(3, 3), kwargs={"device": GPU})
    return placed(rref.to_here().weight)


def trains(to: str, bring_back: bool) -> int:
    """Make ``PASSES`` passes through layers on the GPU of ``to`` and on the own one, with the distributed optimizer.

    Returns how many of the tensors have other bits than the same in this process. With ``bring_back`` results go
    through the CPU.
    """
    torch.backends.cuda.matmul.allow_tf32 = False
    rref = rpc.remote(to, Layers, args=(bring_back,))
    own = Layers(bring_back)
    parameters = [*rref.rpc_sync().parameter_rrefs(), *own.parameter_rrefs()]
    optimizer = DistributedOptimizer(optim.SGD, parameters, lr=0.05)
    for step in range(PASSES):
        x = torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(step))
        with dist_autograd.context() as context_id:
            y = rref.rpc_sync().forward(x if bring_back else x.to(GPU))
            loss = own(y).square().mean()
            dist_autograd.backward(context_id, [loss])  # type: ignore[attr-defined]
            optimizer.step(context_id)
    found = [*rref.rpc_sync().values(), *own.values()]
    return sum(not torch.equal(a, b) for a, b in zip(found, locally(), strict=True))


def locally() -> list[torch.Tensor]:
    """The same as `trains`, in this process alone."""
    first, second = Layers(False), Layers(False)
    optimizer = optim.SGD([*first.parameters(), *second.parameters()], lr=0.05, foreach=False)
    for step in range(PASSES):
        x = torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        second(first(x)).square().mean().backward()
        optimizer.step()
    return [*first.values(), *second.values()]
