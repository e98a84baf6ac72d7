"""Count and record every remote call at its caller, and hand it to `delivery` if a fault of the plan hits it.

Every call of a Python function by `rpc_sync`, `rpc_async`, `remote` or an RRef's proxy uses names of
`torch.distributed.rpc.api`: the pickler, the two functions that send, and for the first two `_invoke_rpc`, which knows
whether its caller waits. Only this file replaces them. No function of the program is replaced, so no reference to one
can be stale. A call that no fault hits travels as usual. TorchScript functions and torch's own operators are not sent
by these functions, so they are not seen. `engine_calls` sees fetches, and gradients if the plan names them or has no
faults.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any, NamedTuple

from torch.distributed.rpc import api
from torch.distributed.rpc.internal import PythonUDF, RPCExecMode

from faults.inject.announcer import Announcer
from faults.inject.call import callee_errors, flight
from faults.inject.call.delivery import CalleeState, deliver, has_begun
from faults.inject.call.engine_calls import hook_fetches, hook_gradients
from faults.inject.call.envelope import Envelope, concerns, hits, sites_of
from faults.ledger.error_links import CALLEE, first_line, links_of, of_a_handler, to_json
from faults.ledger.ledger import Ledger
from faults.plan.fields import BACKWARD
from faults.plan.plan import Plan, PlanError

_PICKLERS = ("_default_pickler", "_internal_rpc_pickler")
_SENDERS = ("_invoke_rpc_python_udf", "_invoke_remote_python_udf")
_INVOKE = "_invoke_rpc"
_NAMES = (*_PICKLERS, *_SENDERS, _INVOKE)


def missing() -> str | None:
    """Say in one line why faults cannot hit calls of this torch; None if they can."""
    absent = [name for name in _NAMES if not hasattr(api, name)]
    return f"this torch has no {', '.join(absent)} in {api.__name__}" if absent else None


class _Pending(NamedTuple):
    """A call whose end is not recorded yet."""

    note: dict[str, Any]
    start: float
    future: Any
    in_flight: bool


class Calls:
    """The remote calls of one role, in its process."""

    def __init__(self, plan: Plan, role: str, ledger: Ledger, announcer: Announcer) -> None:
        self.plan, self.role, self.ledger, self.announcer = plan, role, ledger, announcer
        # The calls of each site; and, of each site that the plan names, its calls to each role.
        self._counts: dict[str | tuple[str, str | None], count[int]] = {}
        # The sites that the plan names. Most calls are of others.
        self._named = {str(fault.site) for fault in plan.at("call").values()}
        # ``waits``: the call that the thread is about to send is an `rpc_sync`.
        self._thread = threading.local()
        # Calls whose end is not recorded yet, by the identity of their notes.
        self._pending: dict[int, _Pending] = {}

    def install(self) -> Callable[[], None]:
        """Replace the names, and return a function that puts them back. Raises PlanError: this torch lacks them."""
        if (reason := missing()) is not None:
            raise PlanError(reason)
        original = {name: getattr(api, name) for name in _NAMES}  # they are put back in this order
        self._original, self._pickler = original, original[_PICKLERS[0]]
        for number, fault in self.plan.at("call").items():
            if concerns(fault, self.role):
                self.ledger.write("planned", fault=number, kind=fault.kind, text=str(fault))
        CalleeState.open = CalleeState(self.ledger, self.settle)
        # Replace both picklers, because torch's own context manager puts the second in the first's place. Replace the
        # senders first, because they accept the result of either pickler, which torch's own senders do not.
        for name in _SENDERS:
            setattr(api, name, partial(self._send, original[name], "remote" if "remote" in name else "rpc"))
        for name in _PICKLERS:
            setattr(api, name, SimpleNamespace(serialize=lambda call: (call, ())))  # `_send` pickles it
        setattr(api, _INVOKE, partial(self._invoke, original[_INVOKE]))
        undo = ExitStack()
        undo.callback(_restore, original)
        undo.callback(callee_errors.install())
        undo.callback(hook_fetches(self))
        if not self.plan.faults or self.plan.names(BACKWARD):
            undo.callback(hook_gradients(self))
        undo.callback(_settle)  # first, because the others forget what an end is told by
        return undo.close

    def _invoke(self, invoke: Callable[..., Any], to: Any, function: Any, mode: RPCExecMode, *others: Any) -> Any:
        """Note for `_send` whether the thread will do nothing but wait for this call."""
        self._thread.waits = mode is RPCExecMode.SYNC
        try:
            return invoke(to, function, mode, *others)
        finally:
            self._thread.waits = False  # `_send` does not send TorchScript's calls and those of operators

    def _send(
        self, send: Callable[..., Any], via: str, to: Any, call: Any, tensors: Any, timeout: float, later: bool
    ) -> Any:
        """Count, record and send one call, in the thread that makes it. Wait for an `rpc_sync`, to record its end."""
        waits, self._thread.waits = getattr(self._thread, "waits", False), False  # pickling may make other calls
        if not isinstance(call, PythonUDF):  # the user's own pickler has pickled it already
            return send(to, call, tensors, timeout, later)
        try:
            sites = sites_of(call.func, call.args, call.kwargs)
            numbers, envelope = self.begin(sites, to.name, later=later)
            site = sites[-1]
            if envelope is not None:
                envelope = self._in_flight(envelope, via)
            if envelope is not None:
                call, later = PythonUDF(deliver, (envelope, *call), {}), envelope.answers_later
            note = {"site": site, "nth": numbers[site], "to": to.name, "via": via}
            self.invoked(note, timeout, envelope)
        except Exception as error:
            self.ledger.broken(error)
            raise
        start, in_flight = time.monotonic(), envelope is not None and bool(envelope.flight)
        sent = False
        try:
            packed, sent, asked = self._pickler.serialize(call), True, None
            if envelope is not None and in_flight:  # the question leaves first
                question = PythonUDF(has_begun, (envelope.site, envelope.flight), {})
                asked = self.send_directly(to, question, timeout, True)
            result = send(to, *packed, timeout, later)
            if asked is not None:
                result = flight.failed_by(asked)
        except Exception as error:  # such as arguments that cannot be pickled, or an agent that has shut down
            # What a signal's handler raises may come after the call has left.
            self.write_failed(note, start, error, sent=sent and of_a_handler(error))
            raise
        future = result._get_future() if via == "remote" else result
        self._record_end(_Pending(note, start, future, in_flight), waits)
        return result

    def _record_end(self, call: _Pending, waits: bool) -> None:
        """Record the end of a call when it comes: in this thread if that ``waits`` for it, otherwise in torch's."""
        number, future = id(call.note), call.future
        self._pending[number] = call
        try:
            if waits:
                # torch's thread, where callbacks of a pending future run, would contend for the GIL with this one.
                try:
                    future.wait()
                except Exception as error:  # `rpc_sync` raises that of the call
                    if of_a_handler(error):
                        raise
        finally:
            if waits and future.done():
                self._ended(number, future)
            else:
                future.add_done_callback(partial(self._ended, number))

    def begin(
        self, sites: tuple[str, ...], to: str | None = None, *, later: bool
    ) -> tuple[dict[str, int], Envelope | None]:
        """Count and announce one call of these sites. Return its numbers, and the envelope of its faults if it has any.

        ``to``: its callee, if it is known; ``later``: the function answers with a future.
        """
        numbers: dict[str, int] = {}
        for site in sites:
            # In C, so that no other thread, signal's handler or finalizer, which may make a call, counts in between.
            numbers[site] = next(self._counts.setdefault(site, count(1)))
        for site in sites:
            self.announcer.announce("call", numbers[site], site)
        named = [site for site in sites if site in self._named]
        if not named:
            return numbers, None
        numbers_to = {site: next(self._counts.setdefault((site, to), count(1))) for site in named}
        found = {s: hits(self.plan, self.role, s, numbers[s], to, numbers_to[s]) for s in named}
        faults = {number: fault for each in found.values() for number, fault in each.items()}
        if not faults:
            return numbers, None
        hit = next(s for s in reversed(named) if found[s])
        hurt = dict(sorted(faults.items()))
        return numbers, Envelope(hurt, self.role, hit, later, numbers, numbers_to, self.plan.seed)

    def invoked(self, note: dict[str, Any], timeout: float, envelope: Envelope | None) -> None:
        """Record the beginning of one call."""
        hit = {} if envelope is None else {"faults": list(envelope.faults)}
        seconds = float(timeout) if timeout >= 0 else default_timeout()  # 0: without a limit
        self.ledger.write("invoke", **note, timeout=seconds, **hit)

    def send_directly(self, to: Any, call: PythonUDF, timeout: float, later: bool) -> Any:
        """Send a call that is neither counted nor recorded. Return its future."""
        return self._original[_SENDERS[0]](to, *self._pickler.serialize(call), timeout, later)

    def _in_flight(self, envelope: Envelope, via: str) -> Envelope | None:
        """Give a key to the envelope of a call that fails in flight. A `remote` cannot: it has no future to fail."""
        if all(fault.side != "flight" for fault in envelope.faults.values()):
            return envelope
        if via != "remote":
            return replace(envelope, flight=flight.new_key(self.role))
        others = {number: fault for number, fault in envelope.faults.items() if fault.side != "flight"}
        for number in envelope.faults.keys() - others.keys():
            self.ledger.write("failed", fault=number, kind="Raise", why=flight.REMOTE)
        return replace(envelope, faults=others) if others else None

    def settle(self) -> None:
        """Record the ends of calls whose callbacks have not run yet. A thread that waits for a call may go on before
        them, and end the process."""
        with self.ledger.lock:
            for number, each in self._pending.copy().items():
                if each.future.done():
                    self._ended(number, each.future)

    def _ended(self, number: int, future: Any) -> None:
        with self.ledger.lock:  # a process that ends meanwhile waits until the line is written
            call = self._pending.pop(number, None)
            if call is None:  # another thread has recorded it
                return
            try:
                try:
                    future.value()
                except Exception as error:
                    self.write_failed(call.note, call.start, error, in_flight=call.in_flight)
                else:
                    self.ledger.write("ok", **call.note, seconds=time.monotonic() - call.start)
            except Exception as error:
                self.ledger.broken(error)
                raise

    def write_failed(
        self, note: dict[str, Any], start: float, error: Exception, *, sent: bool = True, in_flight: bool = False
    ) -> None:
        """Record the end of one call that failed: ``fail`` if its callee has answered by an error, or if it was never
        sent; otherwise ``info``, because it may have executed."""
        links = links_of(error) if in_flight or not sent else links_of(error, callee_errors.raised_there)
        event = "fail" if not sent or any(each.way == CALLEE and each.of == 0 for each in links) else "info"
        seconds = time.monotonic() - start
        self.ledger.write(event, **note, seconds=seconds, error=first_line(error), links=to_json(links))


def default_timeout() -> float:
    """Return how long a call without a timeout of its own waits (seconds; 0: without a limit)."""
    return float(api.get_rpc_timeout())  # type: ignore[attr-defined]


def _settle() -> None:
    own = CalleeState.of_this_process()
    if own is not None:
        own.settle()  # otherwise an end whose callback has not run yet would find its ledger closed


def _restore(original: dict[str, Any]) -> None:
    own = CalleeState.of_this_process()
    if own is not None:
        own.delayed_replies.close(give=True)
    CalleeState.open = None
    for name, value in original.items():
        setattr(api, name, value)
