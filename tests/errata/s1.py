"""Errata S1: the parameter server."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed.rpc as rpc
from torch import nn, optim
from torch.distributed.rpc import RRef

from reference.outcome import Exited, Outcome, Overdue, Returned, RoleFailed
from reference.world import World, launch
from tests.errata.listings import CANNOT, execute, script, shows

Gradients = dict[str, torch.Tensor]


@shows(
    "S1.1",
    raises=("IndentationError", "expected an indented block after class definition on line 1 (listing, line 2)"),
    here=True,
)
def listing_without_indentation() -> None:
    execute("class ParameterServer(object):\ndef __init__(self):\nself.model = None\n")


@shows("S1.2", raises=("AttributeError", "module 'torch.distributed.rpc' has no attribute 'Backend'"))
def name_of_the_backend() -> None:
    rpc.Backend.TENSORPIPE  # type: ignore[attr-defined]  # noqa: B018


@shows("S1.3", raises=("TypeError", "init_rpc() got an unexpected keyword argument 'rpc_backend'"))
def argument_for_the_backend() -> None:
    published = rpc.BackendType.TENSORPIPE  # type: ignore[attr-defined]
    rpc.init_rpc(name="ps", rank=0, world_size=1, rpc_backend=published)  # type: ignore[call-arg]


@shows("S1.4", gives=[0, 2], here=True)
def main_that_joins() -> list[int]:
    """Return its status, and how many of its children end with a traceback."""
    with tempfile.TemporaryDirectory() as folder:
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
            """,
            folder,
        )
    return [done.returncode, done.stderr.count("RuntimeError: crashed")]


@shows("S1.5", raises=("AttributeError", f"{CANNOT} local object 'ask_for_the_server.<locals>.<lambda>'"))
def ask_for_the_server() -> None:
    rpc.rpc_sync("worker1", lambda: global_ps_rref).to_here()  # type: ignore[name-defined]  # noqa: F821


def shut_down() -> None:
    rpc.shutdown()


def leave() -> None:
    os._exit(1)


@shows("S1.6", gives=True, here=True)
def shutdown_without_the_worker() -> bool:
    """Return whether the server is still in its shutdown a second after the worker has ended."""
    with launch(["ps", "worker1"]) as world:
        gone = end_of(world, "worker1", leave)
        assert gone == Exited(1), gone
        outcome = end_of(world, "ps", shut_down, deadline=1)
    assert isinstance(outcome, Overdue), outcome
    return "in shut_down" in outcome.stacks and "in _wait_all_workers" in outcome.stacks


def end_of(world: World, role: str, function: Callable[[], object], **options: float) -> Outcome:
    try:
        return Returned(world.call(role, function, **options))
    except RoleFailed as error:
        return error.outcome


def serve_and_be_asked() -> object:
    """Call it on the server: a name in `run_ps` is not one of the module."""
    listing = execute("""
    def run_ps():
        global_ps_rref = "the server"
    def asked():
        return global_ps_rref
    """)
    listing["run_ps"]()
    return listing["asked"]()


@shows(
    "S1.7",
    raises=(
        "RuntimeError",
        "NameError: On WorkerInfo(id=1, name=worker1):\nNameError(\"name 'global_ps_rref' is not defined\")",
    ),
)
def server_in_a_local_variable() -> None:
    rpc.rpc_sync("worker1", serve_and_be_asked)


_began: list[float] = []


def begin_a_second_late(role: str) -> None:
    """Start the worker when the server has had a second alone. To be used as a ``before``."""
    if role == "worker1":
        threading.Event().wait(1)
        _began.append(time.monotonic())


def began() -> float:
    return _began[0]


@shows("S1.8", gives=False, here=True)
def a_server_that_is_up_before_its_worker() -> bool:
    """The published second of sleep: init_rpc does not return on the server before the worker is there."""
    with launch({"ps": time.monotonic, "worker1": began}, before=begin_a_second_late) as world:
        ends = world.wait()
    up, worker = (outcome.value for outcome in ends.values() if isinstance(outcome, Returned))
    assert isinstance(up, float)
    assert isinstance(worker, float)
    return up < worker


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
    server, orderly, both = ParameterServer(), ParameterServer(), threading.Barrier(2, timeout=10)
    clear, step = server.optimizer.zero_grad, server.optimizer.step
    first = threading.Thread(target=server.apply_gradients, args=(ones(),))

    def clear_before_the_first_steps() -> None:
        if threading.current_thread() is not first:
            both.wait()
        clear()
        if threading.current_thread() is not first:
            both.wait()
            both.wait()

    def step_when_the_second_has_cleared() -> None:
        if threading.current_thread() is first:
            both.wait()
            both.wait()
        step()
        if threading.current_thread() is first:
            both.wait()

    server.optimizer.zero_grad = clear_before_the_first_steps  # type: ignore[method-assign, assignment]
    server.optimizer.step = step_when_the_second_has_cleared  # type: ignore[method-assign, assignment]
    first.start()
    server.apply_gradients(ones())
    first.join()
    for _ in range(2):
        orderly.apply_gradients(ones())
    return {"at once": server.bias(), "one after the other": orderly.bias()}


@shows("S1.14", gives="fork True spawn False", here=True)
def the_same_model_by_chance() -> str:
    """Return whether the worker draws the server's weights, although the server does not send them."""
    with tempfile.TemporaryDirectory() as folder:
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
            """,
            folder,
        )
    return done.stdout.strip() or done.stderr


def read_after_shutdown() -> object:
    ps_rref = RRef(ParameterServer())
    rpc.shutdown()
    return ps_rref.rpc_sync().bias()


@shows(
    "S1.16",
    raises=(
        "RuntimeError",
        "Current RPC agent is not set! Did you initialize the RPC framework (e.g. by calling `rpc.init_rpc`)?",
    ),
    here=True,
)
def the_server_after_shutdown() -> None:
    with launch({"ps": read_after_shutdown}) as world:
        raise RoleFailed("ps", world.wait()["ps"])
