"""A call that faults hit, at the callee: what happens before it executes, and before it is answered."""

from __future__ import annotations

import builtins
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

import torch
from torch.futures import Future

from faults.inject.call.delayed_replies import DelayedReplies
from faults.inject.call.order_gate import OrderGate
from faults.ledger.ledger import Ledger
from faults.plan.plan import Fault
from faults.tracebacks.error_chain import pieces_of, to_json

Function = Callable[..., Any]


class FaultError(RuntimeError):
    """What `Raise` raises unless it names another type; and what a fault that cannot be delivered says."""


@dataclass(frozen=True)
class Envelope:
    """What travels with a hurt call. ``asynchronous``: the function answers with a future of its own.

    ``counts``: where it is a call of several sites, the number that it has at each.
    """

    faults: Mapping[int, Fault]
    caller: str
    site: str
    nth: int
    asynchronous: bool
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def answers_later(self) -> bool:
        """Whether the answer must be a future, so that no RPC thread waits until it is there, if ever."""
        held = (f.kind == "Drop" or (f.kind == "Delay" and f.side == "reply") for f in self.faults.values())
        return self.asynchronous or any(held)


class CalleeState:
    """Where hurt calls arrive in this process; ``open`` while a plan is installed. ``settle``: write down the calls of
    this process that have ended."""

    open: CalleeState | None = None

    def __init__(self, ledger: Ledger, settle: Callable[[], None] = lambda: None) -> None:
        self.ledger = ledger
        self.settle = settle
        self.turns = OrderGate()
        self.later = DelayedReplies()


def deliver(envelope: Envelope, function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Runs on the callee, in the call's RPC thread. Raises FaultError where no plan is installed."""
    if CalleeState.open is None:
        raise FaultError(f"a fault hit {envelope.site}, but its callee has no plan installed")
    return Delivery(CalleeState.open, envelope).run(partial(function, *args, **kwargs))


class Delivery:
    """One hurt call: its faults in the order of the plan, those of the request, then those of the reply."""

    def __init__(self, desk: CalleeState, envelope: Envelope) -> None:
        self.desk, self.envelope = desk, envelope
        self.faults = envelope.faults.items()

    def write(self, event: str, number: int, fault: Fault, **details: Any) -> None:
        at = {"site": fault.site, "nth": self._nth(fault)}
        self._write(event, fault=number, kind=fault.kind, **details, **at)

    def _write(self, event: str, **details: Any) -> None:
        call = {"site": self.envelope.site, "caller": self.envelope.caller, "nth": self.envelope.nth}
        self.desk.ledger.write(event, **{**call, **details})

    def _nth(self, fault: Fault) -> int:
        return self.envelope.counts.get(str(fault.site), self.envelope.nth)

    def run(self, function: Function) -> Any:
        """The answer, or a future of it."""
        for number, fault in self.faults:
            if fault.side == "request" or fault.when == "before":
                self.write("fired", number, fault, side=fault.side or fault.when)
                if fault.kind == "Drop":
                    return Future()  # never completed: the caller hears nothing until its own timeout
                self._before(number, fault)
        result, error = None, None
        try:
            result = self._in_turn(function)
        except Exception as raised:
            error = raised
        return self._answer(result, error)

    def _before(self, number: int, fault: Fault) -> None:
        if fault.kind == "Crash":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault.kind == "Raise":
            raise exception_of(fault)
        self._wait(number, fault)

    def _wait(self, number: int, fault: Fault) -> None:
        """In the RPC thread: executed elsewhere, the call would lose its autograd context."""
        start = time.monotonic()
        threading.Event().wait(fault.seconds)
        self.write("effective", number, fault, seconds=time.monotonic() - start)

    def _in_turn(self, function: Function) -> Any:
        orders = [(number, fault) for number, fault in self.faults if fault.kind == "Order"]
        with ExitStack() as turns:
            groups = [
                turns.enter_context(self.desk.turns.turn(n, f, self._nth(f), self.envelope.caller)) for n, f in orders
            ]
            try:
                return self._executed(function)
            finally:  # in order is in order, also where the last one raises
                for (number, fault), group in zip(orders, groups, strict=True):
                    if group.done == len(group.roles) - 1:  # this is the last
                        self.write("fired", number, fault, arrived=group.arrived)
                        self.write("effective", number, fault, executed=list(group.roles))

    def _executed(self, function: Function) -> Any:
        """What it returns; once more for each `Duplicate`, whose answer is nobody's."""
        try:
            return self._execute(function)
        finally:
            for executions, (number, fault) in enumerate(self._duplicates(), start=2):
                self.write("fired", number, fault)
                try:
                    self._execute(function)
                except Exception as error:
                    said = f"{type(error).__name__}: {error}"[:200]
                    self._write("refused", error=said, causes=to_json(pieces_of(error)))
                self.write("effective", number, fault, executions=executions)

    def _duplicates(self) -> list[tuple[int, Fault]]:
        return [(number, fault) for number, fault in self.faults if fault.kind == "Duplicate"]

    def _execute(self, function: Function) -> Any:
        self._write("executing")
        try:
            return function()
        finally:
            self._write("executed")

    def _answer(self, result: Any, error: Exception | None) -> Any:
        late = 0.0
        for number, fault in self.faults:
            if fault.when == "after":
                self.write("fired", number, fault, side="after")
                os.kill(os.getpid(), signal.SIGKILL)
            if fault.side != "reply":
                continue
            self.write("fired", number, fault, side="reply")
            if fault.kind == "Drop":
                return Future()
            if fault.kind == "Raise":
                result, error = _failing(result, exception_of(fault))
            late += fault.seconds or 0.0
        # An asynchronous function that answers with something else is a mistake of the program's, for torch to tell.
        if late and (is_future(result) or error is not None or not self.envelope.asynchronous):
            return self._late(late, result, error)
        if error is not None:
            raise error
        return result if self.envelope.asynchronous or not self.envelope.answers_later else completed(result)

    def _late(self, seconds: float, result: Any, error: Exception | None) -> Any:
        """A future of the answer that completes so much later than the answer itself."""
        if error is not None:  # through a future it would lose its type: this one time, the RPC thread waits
            start = time.monotonic()
            threading.Event().wait(seconds)
            self._finish(start)
            raise error
        gate = _future()
        done = result if is_future(result) and self.envelope.asynchronous else completed(None)
        done.add_done_callback(lambda _: self._open_later(gate, seconds))
        return gate.then(lambda _: result.value() if done is result else result)

    def _open_later(self, gate: Future[Any], seconds: float) -> None:
        self.desk.later.answer(seconds, partial(self._finish, time.monotonic()), partial(gate.set_result, None))

    def _finish(self, start: float) -> None:
        for number, fault in self.faults:
            if fault.kind == "Delay" and fault.side == "reply":
                self.write("effective", number, fault, seconds=time.monotonic() - start)


def exception_of(fault: Fault) -> Exception:
    """What a `Raise` raises."""
    kind = getattr(builtins, fault.error) if fault.error else FaultError
    error: Exception = kind("injected" if fault.text is None else fault.text)
    return error


def _failing(result: Any, error: Exception) -> tuple[Any, Exception | None]:
    """The error instead of the answer: at once, or when the future that was the answer completes."""

    def fail(_: object) -> NoReturn:
        raise error

    return (result.then(fail), None) if is_future(result) else (None, error)


def is_future(value: object) -> bool:
    """What `then` returns is not of torch's public class, only of that one's base."""
    return isinstance(value, torch._C.Future)


def _future() -> Future[Any]:
    """One that may hold tensors of any device that is in use here."""
    count = torch.cuda.device_count() if torch.cuda.is_initialized() else 0
    return Future(devices=[torch.device("cuda", index) for index in range(count)])


def completed(value: Any) -> Future[Any]:
    """A future that has its value already."""
    future = _future()
    future.set_result(value)
    return future
