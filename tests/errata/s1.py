"""Errata S1: the parameter server."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed.rpc as rpc
from torch import nn, optim
from torch.distributed.rpc import RRef

from tests.errata.listings import script, shows

Gradients = dict[str, torch.Tensor]


@shows("S1.4", gives=[0, 2], here=True)
def main_that_joins() -> list[int]:
    """Return its status, and how many of its children end with a traceback."""
    done = script(
        """
        import multiprocessing
        def run():
            raise RuntimeError("crashed")
        if __name__ == "__main__":
            processes = [multiprocessing.Process(target=run) for _ in range(2)]
            for p in processes:
                p.start()
            for p in processes:
                p.join()
        """
    )
    return [done.returncode, done.stderr.count("RuntimeError: crashed")]


class ParameterServer:
    def __init__(self) -> None:
        self.model = nn.Linear(10, 1)
        self.optimizer = optim.SGD(self.model.parameters(), lr=1.0)
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.zero_()

    @staticmethod
    @rpc.functions.async_execution  # type: ignore[untyped-decorator]
    def get_parameter_rrefs(ps_rref: RRef[Any]) -> Any:
        return [RRef(parameter) for parameter in ps_rref.local_value().model.parameters()]

    def apply_gradients(self, gradients_dict: Gradients) -> bool:
        self.optimizer.zero_grad()
        for name, parameter in self.model.named_parameters():
            parameter.grad = gradients_dict[name]
        self.optimizer.step()
        return True

    def bias(self) -> float:
        return self.model.bias.item()


def ones() -> Gradients:
    return {"weight": torch.ones(1, 10), "bias": torch.ones(1)}


@shows("S1.9", raises=("AttributeError", "'ParameterServer' object has no attribute 'local_value'"))
def the_fetched_server() -> None:
    ps_rref = rpc.remote("worker1", ParameterServer).to_here()
    ps_rref.local_value()


@shows(
    "S1.10",
    raises=(
        "RuntimeError",
        "For UserRRef(rref_id=GloballyUniqueId(…), fork_id=GloballyUniqueId(…)), can't call localValue() on user "
        "WorkerInfo(id=0, name=worker0). Call it on owner WorkerInfo(id=1, name=worker1)",
    ),
)
def local_value_on_a_worker() -> None:
    rpc.remote("worker1", ParameterServer).local_value()


@shows("S1.11", gives={"copy's method": (True, 0.0), "through the RRef": (True, -1.0)})
def method_of_a_copy() -> dict[str, tuple[bool, float]]:
    """Return what the worker gets, and the real server's bias after a gradient of 1."""
    ps_rref = rpc.remote("worker1", ParameterServer)
    told = rpc.rpc_sync("worker1", ps_rref.to_here().apply_gradients, args=(ones(),))
    copied = told, ps_rref.rpc_sync().bias()
    told = ps_rref.rpc_sync().apply_gradients(ones())
    return {"copy's method": copied, "through the RRef": (told, ps_rref.rpc_sync().bias())}


@shows(
    "S1.12",
    raises=(
        "RuntimeError",
        "Unable to cast Python instance of type <class 'list'> to C++ type '?' (…). Functions decorated with "
        "@rpc.async_function must return a torch.futures.Future object, but got builtins.list",
    ),
)
def a_list_from_async_execution() -> None:
    ps_rref = rpc.remote("worker1", ParameterServer)
    rpc.rpc_sync("worker1", ParameterServer.get_parameter_rrefs, args=(ps_rref,))


@shows("S1.13", gives={"at once": -1.0, "one after the other": -2.0})
def two_updates_without_a_lock() -> dict[str, float]:
    """Return the bias after two gradients of 1. It shows only the row's lost update, because crashes come by chance."""
    server, orderly = ParameterServer(), ParameterServer()
    clear, step = server.optimizer.zero_grad, server.optimizer.step

    def step_when_the_second_has_cleared() -> None:
        clear()
        step()

    server.optimizer.step = step_when_the_second_has_cleared  # type: ignore[method-assign, assignment]
    server.apply_gradients(ones())
    server.optimizer.zero_grad = lambda *_: None  # type: ignore[method-assign]
    server.optimizer.step = step  # type: ignore[method-assign]
    server.apply_gradients(ones())
    for _ in range(2):
        orderly.apply_gradients(ones())
    return {"at once": server.bias(), "one after the other": orderly.bias()}


@shows("S1.14", gives="fork True spawn False", here=True)
def the_same_model_by_chance() -> str:
    """Return whether the worker draws the server's weights, although the server does not send them."""
    done = script(
        """
        import multiprocessing, torch
        def draw(queue):
            queue.put(torch.nn.Linear(10, 1).weight.tolist())
        def drawn(method):
            context = multiprocessing.get_context(method)
            queue = context.SimpleQueue()
            process = context.Process(target=draw, args=(queue,))
            process.start()
            weights = queue.get()
            process.join()
            return weights
        if __name__ == "__main__":
            workers = {method: drawn(method) for method in ("fork", "spawn")}
            server = torch.nn.Linear(10, 1).weight.tolist()
            print(*(f"{method} {weights == server}" for method, weights in workers.items()))
        """
    )
    return done.stdout.strip() or done.stderr
