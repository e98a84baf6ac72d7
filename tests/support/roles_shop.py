"""Functions of roles in the tests of faults: a shop whose functions are called in every way that RPC has."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch.distributed.rpc import api
from torch.distributed.rpc.internal import _InternalRPCPickler
from torch.futures import Future

from faults import hook
from faults.inject.call import delivery
from faults.inject.call.order_gate import OrderGate
from faults.ledger import read
from reference.trace.progress import log_step
from tests.support.answers import Answer, answer
from tests.support.roles_futures import completed, failing
from tests.support.roles_plain import await_true

HERE = f"{__name__}:"

# How often each function ran in this process: the callee's own count.
ran: Counter[str] = Counter()
order: list[str] = []
kept: list[Any] = []
_lock = threading.Lock()


def count_run(name: str) -> None:
    with _lock:
        ran[name] += 1


def counts() -> dict[str, int]:
    """Return how often each function has run here since the last `forget`."""
    return dict(ran)


def executions() -> list[str]:
    """Return the callers whose `arrive` ran here, in that order."""
    return list(order)


def forget() -> None:
    """Start counting again from 0."""
    ran.clear()
    order.clear()
    kept.clear()


def activate(folder: str, role: str) -> None:
    """Put a plan to work on an idle role; the role's own counts start again, too."""
    forget()
    hook.activate(folder, role)


def nap(caller: int) -> None:
    """Send the caller's process a signal, while its thread waits for the answer, and answer then."""
    time.sleep(0.4)
    os.kill(caller, signal.SIGALRM)
    time.sleep(0.2)


def meets_a_signal(folder: str, to: str) -> Answer:
    """Make a recorded call, during which a signal comes whose handler raises. Python runs it when the call returns."""

    def refuse(*_: object) -> None:
        raise TimeoutError("too slow")

    before = signal.signal(signal.SIGALRM, refuse)
    activate(folder, "a")
    try:
        return answer(rpc.rpc_sync, to, nap, (os.getpid(),))
    finally:
        hook.deactivate()
        signal.signal(signal.SIGALRM, before)


def await_ends() -> None:
    """Wait until the end of every call of this role is recorded, which comes a moment after its caller's answer."""
    callee = delivery.CalleeState.open
    assert callee is not None
    path = callee.ledger.path

    def all_ended() -> bool:
        lines = filter(None, path.read_text().splitlines())  # a guardian begins a new one in any case
        events = Counter(json.loads(line)["event"] for line in lines)
        return events["invoke"] == events["ok"] + events["fail"] + events["info"]

    await_true(all_ended)


def ends_when_settled(folder: str, to: str, how: str) -> list[str]:
    """Make one call under a plan. Return the ends that are recorded after `settle`, or after the plan's end, before the
    call's own callback.

    ``how``: what ends, ``process`` or ``plan``; ``refused`` is the plan, and the callee answers by an error.
    """
    sender, settled, ends = "_invoke_rpc_python_udf", threading.Event(), list[str]()
    original = vars(api)[sender]

    def settle(_: object) -> None:
        callee = delivery.CalleeState.open
        assert callee is not None
        (callee.settle if how == "process" else hook.deactivate)()
        ends.extend(each.event for each in read(Path(folder)).of("ok", "fail", "info"))
        settled.set()

    def send(*arguments: Any) -> Any:
        future = original(*arguments)
        future.add_done_callback(settle)
        return future

    with patch.object(api, sender, send):
        activate(folder, "a")
        with suppress(TypeError):
            call = rpc.rpc_async(to, once_there, args=(f"{folder}/go", "1" if how == "refused" else 1))
            Path(folder, "go").touch()  # not before, because the call's own callback has to come after `settle`
            call.wait()
        assert settled.wait(10)
        hook.deactivate()
    return ends


def ends_recorded_here(folder: str, to: str) -> list[str]:
    """Make synchronous calls under a plan. Return the ends that this thread has recorded when each has returned."""
    activate(folder, "a")
    callee, own, ends = delivery.CalleeState.open, threading.get_ident(), list[str]()
    assert callee is not None
    write = callee.ledger.write

    def noted(event: str, **details: Any) -> None:
        write(event, **details)
        if event != "invoke" and threading.get_ident() == own:
            ends.append(event)

    with patch.object(callee.ledger, "write", noted):
        rpc.rpc_sync(to, function, args=(1,))
        with suppress(TypeError):
            rpc.rpc_sync(to, function, args=("1",))
        found = ends.copy()
        deactivate()
    return found


def hears_a_signal_within_a_line(folder: str, to: str) -> list[str]:
    """Write a line, within which a signal comes while another thread records the end of a call. The signal's handler
    makes a call, too. Return the ends that are recorded."""
    sender, at_the_end, seek = "_invoke_rpc_python_udf", threading.Event(), os.lseek
    original, late = vars(api)[sender], [Future[None]()]
    thread = threading.Thread(target=late[0].set_result, args=(None,))
    late[0].add_done_callback(lambda _: at_the_end.set())
    before = signal.signal(signal.SIGALRM, lambda *_: rpc.rpc_sync(to, function, args=(1,)))

    def send(*arguments: Any) -> Any:
        return late.pop() if late else original(*arguments)

    def within(*arguments: int) -> int:
        if thread.ident is None:
            thread.start()
            assert at_the_end.wait(10)
            signal.raise_signal(signal.SIGALRM)
        return seek(*arguments)

    with patch.object(api, sender, send):
        activate(folder, "a")
        callee = delivery.CalleeState.open
        assert callee is not None
        rpc.rpc_async(to, function, args=(1,))
        with patch.object(os, "lseek", within):
            callee.ledger.write("step", number=1)
            thread.join(10)
        deactivate()
    signal.signal(signal.SIGALRM, before)
    return [each.event for each in read(Path(folder)).of("ok", "fail", "info")]


def deactivate() -> None:
    await_ends()
    hook.deactivate()


def activate_another(folder: str, role: str) -> None:
    deactivate()
    activate(folder, role)


def process_id() -> int:
    return os.getpid()


# The called functions. Each works on numbers and on tensors, with the derivative 2x + 1.


def once_there(path: str, x: Any) -> Any:
    await_true(Path(path).exists)
    return function(x)


def function(x: Any) -> Any:
    count_run("function")
    return x * x + x


def _later(name: str, x: Any) -> Future[Any]:
    """Answer through a thread of its own, like an answer that several calls wait for."""
    count_run(name)
    return completed(x).then(lambda done: done.value() * done.value() + done.value())


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def asynchronous(x: Any) -> Future[Any]:
    return _later("asynchronous", x)


class Till:
    """An object of the callee."""

    def method(self, x: Any) -> Any:
        count_run("Till.method")
        return x * x + x

    @staticmethod
    def static(x: Any) -> Any:
        count_run("Till.static")
        return x * x + x

    @classmethod
    def of_class(cls, x: Any) -> Any:
        count_run("Till.of_class")
        return x * x + x

    @staticmethod
    @rpc.functions.async_execution  # type: ignore[untyped-decorator]
    def static_asynchronous(x: Any) -> Future[Any]:
        return _later("Till.static_asynchronous", x)

    @rpc.functions.async_execution  # type: ignore[untyped-decorator]
    def method_asynchronous(self, x: Any) -> Future[Any]:
        return _later("Till.method_asynchronous", x)


def call_method(method: Any, rref: Any, *args: Any) -> Any:
    """The helper that the tutorials use."""
    return method(rref.local_value(), *args)


@dataclass(frozen=True)
class Way:
    """One form of call. ``name``: what is called, within this module; ``make``: (to, x, timeout) to its answer."""

    name: str
    make: Callable[[str, Any, float], Any]

    @property
    def site(self) -> str:
        return HERE + self.name


def _sync(name: str, called: Callable[..., Any]) -> Way:
    return Way(name, lambda to, x, timeout: rpc.rpc_sync(to, called, args=(x,), timeout=timeout))


def _till(to: str) -> Any:
    """Wait until its class is known. Otherwise an asynchronous proxy's call leaves from another thread, in which
    torch has forgotten the caller's autograd context, and gradients go missing."""
    till = rpc.remote(to, Till)
    till._get_type(blocking=False).wait()  # a blocking one would break the proxies: they want this very future
    return till


# RRefs whose `remote` has failed: where its timeout has passed, dropping one corrupts the heap (torch 2.13).
undropped: list[Any] = []


def _fetched(rref: Any, timeout: float) -> Any:
    try:
        return rref.to_here(timeout)
    except Exception:
        undropped.append(rref)
        raise


WAYS: Mapping[str, Way] = {
    "rpc_sync": _sync("function", function),
    "rpc_async": Way("function", lambda to, x, t: rpc.rpc_async(to, function, args=(x,), timeout=t).wait()),
    "remote": Way("function", lambda to, x, t: _fetched(rpc.remote(to, function, args=(x,), timeout=t), t)),
    "static": _sync("Till.static", Till.static),
    "of_class": _sync("Till.of_class", Till.of_class),
    "asynchronous": _sync("asynchronous", asynchronous),
    "static_asynchronous": _sync("Till.static_asynchronous", Till.static_asynchronous),
    "proxy": Way("Till.method", lambda to, x, t: _till(to).rpc_sync(timeout=t).method(x)),
    "proxy_async": Way("Till.method", lambda to, x, t: _till(to).rpc_async(timeout=t).method(x).wait()),
    "proxy_remote": Way("Till.method", lambda to, x, t: _fetched(_till(to).remote(timeout=t).method(x), t)),
    "proxy_asynchronous": Way(
        "Till.method_asynchronous", lambda to, x, t: _till(to).rpc_sync(timeout=t).method_asynchronous(x)
    ),
    "helper": Way(
        "Till.method",
        lambda to, x, t: rpc.rpc_sync(to, call_method, args=(Till.method, _till(to), x), timeout=t),
    ),
}


def call(way: str, to: str, x: Any, timeout: float = 10.0) -> Any:
    """Make one call in one way, on the caller."""
    return WAYS[way].make(to, x, timeout)


def calls(way: str, to: str, count: int, timeout: float = 10.0, short: Collection[int] = ()) -> list[Answer]:
    """Make so many calls in one way, one after the other, of 1, 2, ...: each gives the square plus the number.

    If ``short`` names calls, only these have the ``timeout``; the others have 10 s.
    """

    def one(x: int) -> Answer:
        return answer(lambda: call(way, to, x, timeout if x in short or not short else 10.0))

    return [one(x) for x in range(1, count + 1)]


def squares(way: str, to: str, count: int) -> list[tuple[Any, Any]]:
    """Make so many calls in one way with tensors of 1 to 4, 2 to 5, ...: each tensor after its call, and the answer."""
    given = [torch.arange(4, dtype=torch.float64) + number for number in range(1, count + 1)]
    return [(x, call(way, to, x)) for x in given]


def gradients(way: str, to: str, count: int, timeout: float = 10.0) -> list[Any]:
    """Differentiate the square plus itself by distributed autograd: each call within a context of its own."""
    found = []
    for number in range(1, count + 1):
        x = (torch.arange(3, dtype=torch.float64) / 4 + number).requires_grad_()
        with dist_autograd.context() as context:
            dist_autograd.backward(context, [call(way, to, x, timeout).sum()])  # type: ignore[attr-defined]
            found.append(dist_autograd.get_gradients(context)[x])  # type: ignore[attr-defined]
    return found


# Functions that fail by themselves.


def refuse(kind: str) -> None:
    raise {"TypeError": TypeError, "ValueError": ValueError, "KeyError": KeyError}.get(kind, RuntimeError)("no sale")


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def refuse_later() -> Future[Any]:
    return completed(None).then(failing(ValueError("no sale")))


def arrive(name: str) -> str:
    with _lock:
        order.append(name)
    return name


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def arrive_later(name: str) -> Future[str]:
    return completed(arrive(name))


ARRIVALS: Mapping[str, Callable[..., Any]] = {each.__name__: each for each in (arrive, arrive_later)}


def send_arrival(function: str, to: str) -> None:
    """Begin a call whose answer `take_answer` waits for."""
    name = rpc.get_worker_info().name
    kept.append(rpc.rpc_async(to, ARRIVALS[function], args=(name,), timeout=20))


def take_answer() -> Answer:
    return answer(kept.pop().wait)


def await_arrivals(count: int) -> bool:
    """Wait until so many calls of the first `Order` have arrived. Executed on the callee."""
    callee = delivery.CalleeState.open
    assert callee is not None
    return arrived(callee.order_gate, count)


def arrived(gate: OrderGate, count: int) -> bool:
    """Wait until so many calls have arrived at the gate that are not done."""
    with gate.changed:
        return gate.changed.wait_for(lambda: sum(len(each.arrived) for each in gate.groups.values()) >= count, 10)


def seconds_of_another_call(to: str) -> float:
    """Return how long a second call takes that is sent right after one of `function`."""
    faulty = rpc.rpc_async(to, function, args=(1,), timeout=0.8)
    start = time.monotonic()
    rpc.rpc_sync(to, process_id)
    seconds = time.monotonic() - start
    answer(faulty.wait)
    return seconds


def refused(kind: str, to: str) -> Answer:
    """Make a call that fails by itself."""
    if kind == "later":
        return answer(lambda: rpc.rpc_sync(to, refuse_later))
    return answer(lambda: rpc.rpc_sync(to, refuse, args=(kind,)))


def send_a_lock(to: str) -> Answer:
    return answer(lambda: rpc.rpc_sync(to, function, args=(threading.Lock(),)))


class _Pickler(_InternalRPCPickler):
    """A user's own pickler."""


def with_own_pickler(to: str) -> list[Answer]:
    """Call `function`: the second time with another pickler, then two more times as usual."""

    def one() -> Answer:
        return answer(lambda: rpc.rpc_sync(to, function, args=(1,)))

    first = one()
    with rpc.api._use_rpc_pickler(_Pickler()):  # type: ignore[no-untyped-call]
        second = one()
    return [first, second, one(), one()]


def steps_and_calls() -> None:
    for number in (1, 2):
        log_step(number, 2, 0.0)
        rpc.rpc_sync("b", function, args=(number,))
