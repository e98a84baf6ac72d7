"""Functions of roles in the tests of futures: the test says when a call is answered, and gets each future's end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch.futures import Future, collect_all, wait_all

from tests.support.answers import Answer, answer
from tests.support.roles_plain import add, nothing

# Longer than anything here takes; a wait that lasts so long (seconds) is a failure.
LONG = 20.0


def failing(error: Exception) -> Callable[[object], Any]:
    """A callback that raises."""

    def fail(_: object) -> Any:
        raise error

    return fail


def completed(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def _asked(to: str, function: Any, *args: Any, timeout: float = LONG) -> Future[Any]:
    future: Future[Any] = rpc.rpc_async(to, function, args=args, timeout=timeout)
    return future


def refuse(text: str) -> None:
    raise ValueError(text)


# An answer of this role that another role gives.

_later: list[Future[int]] = [Future()]
_door = threading.Event()
_waiting = threading.Semaphore(0)


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def answered() -> Future[int]:
    """Answered with 1 when another role calls `give`."""
    return _later[-1]


def waits(fails: bool = False) -> int:
    """Wait in a thread of this role until another role calls `give`."""
    _waiting.release()
    if not _door.wait(LONG):
        raise TimeoutError("nobody gave an answer")
    if fails:
        raise ValueError("no")
    return 1


def give() -> None:
    """Let `answered` and `waits` end. Executed on their role."""
    _door.set()
    _later[-1].set_result(1)


def forget() -> None:
    """Begin again, with an answer that nobody has given."""
    _door.clear()
    _later[:] = [Future()]


def await_waiting(count: int) -> bool:
    """Wait until so many calls of `waits` have arrived here since the last time."""
    return all(_waiting.acquire(timeout=LONG) for _ in range(count))


def waits_through(to: str, timeout: float) -> int:
    """Make a nested call: a thread of this role waits for a thread of another."""
    value: int = rpc.rpc_sync(to, waits, timeout=timeout)
    return value


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def waits_through_a_future(to: str, timeout: float) -> Future[int]:
    """Make the same call without a waiting thread of this role."""
    return _asked(to, waits, timeout=timeout)


def start_nested(function: Any, count: int, timeout: float, own_timeout: float) -> None:
    """Ask ``b`` so many times for calls that wait at ``c``; `take_nested` waits for the answers.

    ``timeout``, ``own_timeout``: seconds of b's calls to c, and of these.
    """
    _kept[:] = [rpc.rpc_async("b", function, args=("c", timeout), timeout=own_timeout) for _ in range(count)]


def take_nested() -> list[Answer]:
    return [answer(each.wait) for each in _kept]


# Fan-in of calls.


def fan_in(way: str, calls: Sequence[str], to: str) -> Answer:
    """`collect_all` or `wait_all` of calls: ``ok`` gives its place, ``no`` raises, ``never`` times out after 1 s."""

    def call(place: int, kind: str) -> Future[Any]:
        if kind == "ok":
            return _asked(to, add, place, 0)
        if kind == "never":
            return _asked(to, never, False, timeout=1.0)
        return _asked(to, refuse, f"call {place}")

    def gather() -> Any:
        futures = [call(place, kind) for place, kind in enumerate(calls)]
        return wait_all(futures) if way == "wait_all" else [each.value() for each in collect_all(futures).wait()]

    return answer(gather)


# Answers of @async_execution functions.


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def sets_exception(later: bool) -> Future[Any]:
    future: Future[Any] = Future()
    if later:
        timer = threading.Timer(0.05, future.set_exception, (ValueError("set"),))
        timer.daemon = True
        timer.start()
    else:
        future.set_exception(ValueError("set"))
    return future


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def sets_exception_then_reads() -> Future[Any]:
    """Set an exception, then read the value through `then`: the repair."""
    future: Future[Any] = Future()
    future.set_exception(ValueError("set"))
    return future.then(lambda done: done.value())


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def raises_in_then() -> Future[Any]:
    return completed(None).then(failing(ValueError("raised")))


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def raises_at_once() -> Future[Any]:
    raise ValueError("at once")


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def corrupted() -> Future[Any]:
    """An answer first, then an exception on the same future."""
    future = completed(1)
    answer(lambda: future.set_exception(ValueError("late")))
    return future


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def a_future_of_a_future() -> Future[Any]:
    return completed(completed(1))


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def an_unsendable_value() -> Future[Any]:
    return completed(threading.Lock())


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def a_fan_in() -> Future[Any]:
    """Futures in the answer, which cannot travel."""
    future = completed(1)
    return collect_all([future, future])


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def forwards(to: str, text: str) -> Future[Any]:
    """Answers with the future of a further call, which fails."""
    return _asked(to, refuse, text)


_kept: list[Any] = []


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def never(keep: bool) -> Future[Any]:
    future: Future[Any] = Future()
    if keep:
        _kept.append(future)
    return future


def call(function: Any, to: str, *args: Any, timeout: float = LONG) -> Answer:
    return answer(lambda: _asked(to, function, *args, timeout=timeout).wait())


def fetch(function: Any, to: str, *args: Any) -> Answer:
    return answer(lambda: rpc.remote(to, function, args=args).to_here(LONG))


def unanswered_beside_others(keep: bool, to: str, timeout: float) -> tuple[Answer, list[Answer]]:
    """A call that is never answered, and three others while it is under way."""
    others: list[Answer] = []

    def ask() -> Any:
        pending = rpc.rpc_async(to, never, args=(keep,), timeout=timeout)
        others.extend(call(add, to, number, 1) for number in range(3))
        assert not pending.done()  # they were answered before
        return pending.wait()

    return answer(ask), others


def leave_unanswered(keep: bool, awaited: bool, timeout: float) -> float:
    """Call `b`, and begin the shutdown with the call still open, or after its timeout: when (`time.monotonic`)."""
    pending = rpc.rpc_async("b", never, args=(keep,), timeout=timeout)
    if awaited:
        answer(pending.wait)
    return time.monotonic()


def send_a_future(to: str) -> Answer:
    return answer(lambda: rpc.rpc_sync(to, nothing, args=(Future(),)))


def overtaken(to: str) -> tuple[Answer, Answer, Answer]:
    """Complete the future of a call before its answer comes: the value, the answer's fate, a later call."""
    rpc.rpc_sync(to, forget)
    future = _asked(to, answered)
    future.set_result("mine")
    rpc.rpc_sync(to, give)
    return answer(future.wait), answer(lambda: future.set_result("again")), call(add, to, 1, 2)


def never_set_after_an_error(to: str, caught: bool) -> bool:
    """Complete another future in a callback of a failed call: whether it was complete once the callback has run."""
    rpc.rpc_sync(to, forget)
    other: Future[Any] = Future()

    def hand_on(done: Any) -> None:
        try:
            other.set_result(done.value())
        except ValueError as error:
            if not caught:
                raise
            other.set_result(error)

    failed, ran = _asked(to, waits, True), threading.Event()
    failed.add_done_callback(hand_on)
    failed.add_done_callback(lambda _: ran.set())
    rpc.rpc_sync(to, give)
    assert ran.wait(LONG)
    return other.done()


# Other surprises.


def nested_contexts() -> tuple[Answer, bool]:
    """Open a context in a context. Return also whether one after the other works."""

    def nest() -> None:
        with dist_autograd.context(), dist_autograd.context():
            pass

    nested = answer(nest)
    with dist_autograd.context() as context:
        return nested, context >= 0
