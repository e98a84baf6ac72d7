"""Execute a call that faults hit, at the callee: apply the faults before it executes and before it is answered."""

from __future__ import annotations

import builtins
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch.distributed.rpc as rpc
from torch.futures import Future

from faults.inject.call.corruption import MessageCorrupter
from faults.inject.call.envelope import Envelope
from faults.inject.call.flight import BegunCalls
from faults.inject.call.order_gate import OrderGate, OutOfTurn
from faults.inject.call.replies import DelayedReplies, completed, failing, is_future, new_future
from faults.inject.process.hold import hold
from faults.inject.process.target import IGNORED, end_now, has_signal
from faults.ledger.error_links import first_line
from faults.ledger.ledger import Ledger
from faults.plan.plan import Fault

Function = Callable[..., Any]

# Seconds after its beginning until which a call waits for its second execution, and those that a role's shutdown waits.
SHORT, LONG = 0.25, 10.0


class FaultError(RuntimeError):
    """The error that `Raise` raises unless it names another type, and that a fault without a plan at the callee
    raises."""


class CalleeState:
    """The state of this process as a callee; ``open`` while a plan is installed. ``settle``: record the calls of this
    process that have ended."""

    open: CalleeState | None = None

    def __init__(self, ledger: Ledger, settle: Callable[[], None] = lambda: None) -> None:
        self.ledger = ledger
        self.settle = settle
        self.order_gate = OrderGate()
        self.delayed_replies = DelayedReplies()
        self.begun_calls = BegunCalls()
        self.again: list[threading.Thread] = []

    def finish(self) -> None:
        """Wait, but not for ever, until calls have executed again."""
        due = time.monotonic() + LONG
        for thread in self.again:
            thread.join(max(0.0, due - time.monotonic()))

    @classmethod
    def of_this_process(cls) -> CalleeState | None:
        """Return the state that this process has opened; None if there is none, or only that of a forking parent."""
        return cls.open if cls.open is not None and cls.open.ledger.process == os.getpid() else None


def deliver(envelope: Envelope, function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Execute the call on the callee, in the call's RPC thread. Raises FaultError: no plan is installed there."""
    delivery = Delivery(_open(envelope.site), envelope)
    try:
        return delivery.run(partial(function, *args, **kwargs))
    except Exception as error:
        if not isinstance(error, OutOfTurn) and id(error) not in delivery.raised:
            delivery.callee.ledger.broken(error)
        if envelope.flight and not delivery.has_begun:  # nobody waits for this call's own answer
            delivery.callee.begun_calls.begin(envelope.flight, first_line(error))
        raise


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def has_begun(site: str, key: str) -> Future[str | None]:
    """Answer, on the callee, when the call in flight with this key begins. Raises FaultError: no plan is installed
    there."""
    return _open(site).begun_calls.of(key)


def _open(site: str) -> CalleeState:
    callee = CalleeState.open
    if callee is None:
        raise FaultError(f"a fault hit {site}, but its callee has no plan installed")
    return callee


class Delivery:
    """One call with faults. Apply the faults of the request, then those of the reply, each in the order of the plan.

    ``raised``: the identities of the errors of the program's function, and of those that the plan raises. The errors
    themselves would be kept in a circle with what their frames hold.
    """

    def __init__(self, callee: CalleeState, envelope: Envelope) -> None:
        self.callee, self.envelope = callee, envelope
        self.faults = envelope.faults.items()
        self.raised: set[int] = set()
        self.has_begun = False
        self.corrupter = MessageCorrupter(self.write, envelope)

    def write(self, event: str, number: int, fault: Fault, **details: Any) -> None:
        at = {"site": fault.site, "nth": self.envelope.counts[str(fault.site)]}
        at |= {} if fault.to is None else {"nth_to": self.envelope.nth_of(fault)}
        self._write(event, fault=number, kind=fault.kind, **details, **at)

    def _write(self, event: str, **details: Any) -> None:
        call = {"site": self.envelope.site, "caller": self.envelope.caller, "nth": self.envelope.nth}
        self.callee.ledger.write(event, **{**call, **details})

    def _of(self, kind: str, side: str | None = None) -> list[tuple[int, Fault]]:
        """Return the faults of this kind and side, each with its number in the plan."""
        return [(number, fault) for number, fault in self.faults if (fault.kind, fault.side) == (kind, side)]

    def run(self, function: partial[Any]) -> Any:
        """Return the answer, or a future of it."""
        for number, fault in self.faults:
            if fault.side == "request" and fault.kind == "Corrupt":
                message = (function.func, function.args, function.keywords)
                called, args, kwargs = self.corrupter.message(number, fault, message)
                function = partial(called, *args, **kwargs)
            elif fault.side == "request" or fault.when == "before":
                self.before(number, fault)
                if fault.kind == "Drop":
                    return Future()  # never completed, so the caller waits until its own timeout
        result, error = None, None
        try:
            result = self._in_turn(function)
        except Exception as raised:
            error = raised
        return self._answer(result, error)

    def _planned(self, fault: Fault) -> Exception:
        """Make the exception that a `Raise` raises."""
        kind = getattr(builtins, fault.error) if fault.error else FaultError
        error: Exception = kind("injected" if fault.text is None else fault.text)
        self.raised.add(id(error))
        return error

    def before(self, number: int, fault: Fault) -> None:
        """Apply a fault before the call executes, or before the gradient leaves."""
        if fault.kind == "Crash":
            self._crash(number, fault)
            return
        if fault.kind == "Hold":
            self._hold(number, fault)
            return
        self.write("fired", number, fault, side="request")
        if fault.kind == "Raise":
            raise self._planned(fault)
        if fault.kind == "Delay":
            self.wait(number, fault)
        elif fault.kind != "Drop":
            raise NotImplementedError(f"no {fault.kind} of a request")

    def _crash(self, number: int, fault: Fault) -> None:
        """End this process. If the program handles the signal, the call goes on as the program does."""
        if fault.how == "term" and has_signal(os.getpid(), IGNORED, signal.SIGTERM):
            self.write("failed", number, fault, why=f"{self.callee.ledger.role} ignores SIGTERM")
            return
        how = {"how": fault.how} if fault.how else {}
        self.write("fired", number, fault, side=fault.when, **how)
        end_now(fault.how)
        if fault.how == "term":
            self.write("effective", number, fault)

    def _hold(self, number: int, fault: Fault) -> None:
        self.write("fired", number, fault, side=fault.side, pid=os.getpid())
        hold(fault.seconds or 0.0, partial(self.write, number=number, fault=fault))

    def wait(self, number: int, fault: Fault) -> None:
        """Wait in the RPC thread, because in another thread the call would lose its autograd context."""
        start = time.monotonic()
        threading.Event().wait(fault.seconds)
        self.write("effective", number, fault, seconds=time.monotonic() - start)

    def _in_turn(self, function: Function) -> Any:
        orders, gate = self._of("Order"), self.callee.order_gate
        with ExitStack() as turns:
            taken = [gate.turn(n, fault, self.envelope.nth_of(fault), self.envelope.caller) for n, fault in orders]
            groups = [turns.enter_context(turn) for turn in taken]
            try:
                return self._executed(function)
            finally:  # the order was kept even if the last call raises
                for (number, fault), group in zip(orders, groups, strict=True):
                    if group.done == len(group.roles) - 1:  # this call is the last
                        self.write("fired", number, fault, arrived=group.arrived)
                        self.write("effective", number, fault, executed=list(group.roles))

    def _executed(self, function: Function) -> Any:
        """Execute the function, and once more for each `Duplicate`. Return the first answer; drop the others.

        The others follow in another thread. The caller waits for them only if all are short, because whoever waits for
        the answer, or for the caller, may reach a limit that the first answer keeps.
        """
        start = time.monotonic()
        try:
            return self._execute(function, self._of("Raise", "flight"))
        finally:
            if self._of("Duplicate"):
                again = threading.Thread(target=self._execute_again, args=(function,), daemon=True)
                again.start()
                again.join(max(0.0, start + SHORT - time.monotonic()))
                if again.is_alive():
                    self.callee.again.append(again)

    def _execute_again(self, function: Function) -> None:
        for executions, (number, fault) in enumerate(self._of("Duplicate"), start=2):
            self.write("fired", number, fault)
            try:
                self._execute(function)
            except Exception as error:
                self._write("refused", error=first_line(error))
            self.write("effective", number, fault, executions=executions)

    def _execute(self, function: Function, flights: Sequence[tuple[int, Fault]] = ()) -> Any:
        """Execute the function. After it has begun, the caller of a call in flight fails."""
        self.has_begun = True
        self._write("executing")
        for number, fault in flights:
            self.write("fired", number, fault, side="flight")
        if flights:
            self.callee.begun_calls.begin(self.envelope.flight)
        start = time.monotonic()
        try:
            return function()
        except Exception as error:
            self.raised.add(id(error))
            raise
        finally:
            self._write("executed")
            for number, fault in flights:
                self.write("effective", number, fault, seconds=time.monotonic() - start)

    def _answer(self, result: Any, error: Exception | None) -> Any:
        late = 0.0
        for number, fault in self.faults:
            if fault.when == "after":
                self._crash(number, fault)
            if fault.side != "reply":
                continue
            if fault.kind == "Corrupt":
                result = self._corrupted(number, fault, result, error)
                continue
            if fault.kind == "Hold":
                self._hold(number, fault)
                continue
            self.write("fired", number, fault, side="reply")
            if fault.kind == "Drop":
                return Future()
            if fault.kind == "Raise":
                result, error = failing(result, self._planned(fault))
            elif fault.kind != "Delay":
                raise NotImplementedError(f"no {fault.kind} of a reply")
            late += fault.seconds or 0.0
        # If an asynchronous function does not answer with a future, torch reports that mistake of the program.
        if late and (is_future(result) or error is not None or not self.envelope.asynchronous):
            return self._late(late, result, error)
        if error is not None:
            raise error
        return result if self.envelope.asynchronous or not self.envelope.answers_later else completed(result)

    def _corrupted(self, number: int, fault: Fault, result: Any, error: Exception | None) -> Any:
        """Change a tensor of the answer: at once, or if the answer is a future, when that completes."""
        if error is not None:
            self.write("failed", number, fault, side="reply", why="the reply holds no tensor: the call raised")
            return result
        if self.envelope.asynchronous and is_future(result):
            return result.then(partial(self._corrupted_later, number, fault))
        return self.corrupter.message(number, fault, result)

    def _corrupted_later(self, number: int, fault: Fault, done: Future[Any]) -> Any:
        try:
            value = done.value()
        except Exception as error:
            self._corrupted(number, fault, None, error)
            raise
        with self.callee.ledger.own_errors():
            return self.corrupter.message(number, fault, value)

    def _late(self, seconds: float, result: Any, error: Exception | None) -> Any:
        """Return a future that completes so many seconds later than the answer itself."""
        if error is not None:  # a future would lose the error's type, so here the RPC thread waits
            start = time.monotonic()
            threading.Event().wait(seconds)
            self._finish(start)
            raise error
        gate = new_future()
        done = result if is_future(result) and self.envelope.asynchronous else completed(result)
        give, answer = partial(gate.set_result, None), self.callee.delayed_replies.answer
        done.add_done_callback(lambda _: answer(seconds, partial(self._finish, time.monotonic()), give))
        return gate.then(lambda _: done.wait())  # `value` does not wait for kernels of a GPU that fill tensors

    def _finish(self, start: float) -> None:
        for number, fault in self._of("Delay", "reply"):
            self.write("effective", number, fault, seconds=time.monotonic() - start)
