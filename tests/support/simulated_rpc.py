"""RPC between simulated processes: every request, answer and error arrives when the test says so.

Each process has modules of its own, as real ones have, because those keep what they know in globals.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from functools import cache, partial
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

import torch

from tests.support.simulated_threads import Simulation


class Call(torch.futures.Future[Any]):
    """A call's future at its caller, in whose threads its callbacks run."""

    simulation: Simulation

    def wait(self) -> Any:
        self.simulation.wait(self.done)
        return self.value()


@dataclass
class Message:
    """What is under way: a request, an answer or a connection's end. It ``arrives`` at one process."""

    kind: str
    sender: str
    receiver: str
    arrive: Callable[[], object]


class Network:
    """The processes by rank, with their modules, and the messages that are under way."""

    def __init__(self, simulation: Simulation, names: list[str], module: ModuleType) -> None:
        self.simulation, self.names = simulation, names
        self.modules = {name: _copy(module) for name in names}
        self.messages: list[Message] = []
        self.ended: set[str] = set()
        self.stopped: set[str] = set()
        self._open: list[tuple[str, str, Call]] = []  # caller, callee

    def rpc(self) -> Any:
        """What a module has as ``rpc``."""
        return SimpleNamespace(
            rpc_async=self.call,
            rpc_sync=lambda *args, **given: self.call(*args, **given).wait(),
            get_worker_info=lambda: SimpleNamespace(name=self.simulation.owner),
        )

    def agent(self) -> Any:
        """What torch returns as the current agent."""
        infos = [SimpleNamespace(name=name, id=rank) for rank, name in enumerate(self.names)]
        return SimpleNamespace(store=self, get_worker_infos=lambda: infos, get_debug_info=self._debug_info)

    def _debug_info(self) -> dict[str, str]:
        return {"agent.client_active_calls": str(sum(caller == self.simulation.owner for caller, *_ in self._open))}

    def call(self, to: str, function: Any, args: tuple[Any, ...] = (), timeout: float = 0) -> Call:
        caller, future = self.simulation.owner, Call()
        future.simulation = self.simulation
        self._open.append((caller, to, future))
        execute = getattr(self.modules[to], function.__name__, function)  # the callee's own
        if to in self.ended:
            self._lose(caller, to, future)
        else:
            arrive = partial(self._execute, caller, to, future, partial(execute, *args))
            self.messages.append(Message("request", caller, to, arrive))
        if timeout:
            late = RuntimeError(f"RPCErr:1:RPC ran for more than set timeout ({timeout * 1000:.0f} ms)")
            self.simulation.start(lambda: self._end_late(future, timeout, late))
        return future

    def _end_late(self, future: Call, timeout: float, late: RuntimeError) -> None:
        self.simulation.wait(future.done, timeout)
        self._end(future, late)

    def _execute(self, caller: str, callee: str, future: Call, function: Callable[[], Any]) -> None:
        value = function()
        if isinstance(value, torch.futures.Future):
            value.add_done_callback(lambda done: self._answer(caller, callee, future, done.value()))
        else:
            self._answer(caller, callee, future, value)

    def _answer(self, caller: str, callee: str, future: Call, value: Any) -> None:
        self.messages.append(Message("answer", callee, caller, partial(self._end, future, value)))

    def _lose(self, caller: str, callee: str, future: Call) -> None:
        error = RuntimeError(f"EOF: end of file (from {callee})")
        self.messages.append(Message("end", callee, caller, partial(self._end, future, error)))

    def _end(self, future: Call, value: Any) -> None:
        if not future.done():
            self._open = [each for each in self._open if each[2] is not future]
            future.set_exception(value) if isinstance(value, Exception) else future.set_result(value)

    def arriving(self) -> list[Message]:
        """The messages that can arrive, the oldest first: a connection's end comes last on that connection."""
        sent = {(each.sender, each.receiver) for each in self.messages if each.kind != "end"}
        able = [each for each in self.messages if each.kind != "end" or (each.sender, each.receiver) not in sent]
        return [each for each in able if each.receiver not in self.stopped]

    def deliver(self, message: Message) -> None:
        """Let a message arrive."""
        self.messages.remove(message)
        if message.receiver not in self.ended:
            self.simulation.run(message.arrive, message.receiver)

    def end(self, name: str, *, killed: bool) -> None:
        """A process ends. What it was sent is lost, and its requests, and, if it is ``killed``, its answers."""
        self.ended.add(name)
        self.simulation.kill(name)
        lost = ("request", "answer") if killed else ("request",)
        self.messages = [
            each for each in self.messages if each.receiver != name and not (each.sender == name and each.kind in lost)
        ]
        for caller, callee, future in self._open:
            if callee == name:
                self._lose(caller, callee, future)


def _copy(module: ModuleType) -> ModuleType:
    """Execute a module once more, with globals of its own. Dataclasses, which messages carry, are the same in all."""
    copy = ModuleType(module.__name__)
    copy.__file__ = module.__file__
    exec(_code(module), vars(copy))
    vars(copy).update((name, value) for name, value in vars(module).items() if is_dataclass(value))
    return copy


@cache
def _code(module: ModuleType) -> CodeType:
    return compile(inspect.getsource(module), module.__file__ or "", "exec")
