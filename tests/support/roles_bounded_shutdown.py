"""Functions of roles in the tests of `reference.world.shutdown`."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch.distributed.rpc as rpc
from torch._C._distributed_rpc import _get_current_rpc_agent, _is_current_rpc_agent_set

from reference.system import moments
from reference.world import bounded_shutdown, shutdown
from reference.world.bounded_shutdown import READY, ShutdownBarrier, TimeLimit, WorkThread, here, losses_named, state
from reference.world.rpc_agent import LOCAL_OPTIONS, start_agent
from tests.support import roles_shutdown as plays
from tests.support.answers import Answer, answer
from tests.support.roles_plain import await_true, kill_oneself

_gate = threading.Event()


def end(timeout: float = 30, **arguments: Any) -> Answer:
    return answer(lambda: shutdown(timeout, **arguments))


def seconds_kept(timeout: float) -> float:
    """Shut down, and return the last seconds of the limit that waits for other roles leave alone."""
    kept = list[float]()

    def note(limit: TimeLimit) -> None:
        kept.append(limit.left() - limit.left_to_wait())

    with patch.object(bounded_shutdown, "end_together", note):
        shutdown(timeout)
    return kept[0]


def start(name: str, rank: int, size: int, place: str) -> Answer:
    """Start RPC again. ``place``: the rendezvous; a store that is met by TCP is held by another process, as torchrun's.

    torch takes such a store for torchrun's by these variables, from 2.14 on by its address, too.
    """
    if place.startswith("tcp:"):
        host, _, port = place.removeprefix("tcp://").partition(":")
        os.environ.update(TORCHELASTIC_USE_AGENT_STORE="True", MASTER_ADDR=host, MASTER_PORT=port)
    return answer(lambda: start_agent(name, rank, size, place, {**LOCAL_OPTIONS, "rpc_timeout": 10}))


def end_in_a_thread(timeout: float = 30) -> Answer:
    with ThreadPoolExecutor() as pool:
        return pool.submit(end, timeout).result()


def end_twice_at_once(peer: str) -> tuple[Answer, Answer]:
    """Shut down in a thread and, when it has begun, here as well: what the thread saw, and this role's own."""
    with ThreadPoolExecutor() as pool:
        first = pool.submit(end)
        await_true(is_in_its_shutdown, otherwise="no shutdown has begun here")
        refused = end()
        rpc.rpc_sync(peer, go_on)
        return first.result(), refused


def end_when_told(timeout: float = 30) -> Answer:
    wait_busily()
    return end(timeout)


def wait_busily() -> None:
    """Be a role that works, and does not come to the shutdown until `go_on`, at most 20 s."""
    assert _gate.wait(20)


def end_after_news(timeout: float = 30) -> Answer:
    """Work until the others have given this role up, and shut down then."""
    assert here().known.wait(20)
    return end(timeout)


def rpc_fails(peer: str) -> bool:
    return answer(lambda: rpc.rpc_sync(peer, is_up)).error != ""


def go_on() -> None:
    _gate.set()


def end_with_a_short_count(timeout: float = 30) -> Answer:
    """Shut down, and wait in the last count for a second."""
    bounded_shutdown.COUNT_SECONDS = 1.0
    return end(timeout)


def end_when_seen_to_leave_last(peer: str) -> Answer:
    """Shut down, and tell the first rank only after ``peer`` has left and this role was then asked where it is."""
    asked, count, where = threading.Event(), bounded_shutdown._count, bounded_shutdown.state

    def add(store: Any, key: str, amount: int) -> int:
        await_true(lambda: rpc_fails(peer), otherwise=f"{peer} has not left")
        asked.clear()
        assert asked.wait(10)
        return int(store.add(key, amount))

    def last(agent: Any, barrier: ShutdownBarrier, limit: TimeLimit) -> None:
        store = SimpleNamespace(add=partial(add, agent.store))
        count(SimpleNamespace(join=agent.join, get_worker_info=agent.get_worker_info, store=store), barrier, limit)

    @wraps(where)  # so that it can be sent under that name
    def asked_where() -> bounded_shutdown.State:
        asked.set()
        return where()

    bounded_shutdown._count, bounded_shutdown.state = last, asked_where
    return end()


def is_in_its_shutdown() -> bool:
    return state()[0] != ""


def die_before_the_open_calls_have_ended() -> None:
    """Die a moment after all have come."""

    def die(limit: TimeLimit) -> None:
        time.sleep(0.3)
        kill_oneself()

    bounded_shutdown.release_rrefs = die
    shutdown(30)


def die_before_the_last_count() -> None:
    """Die when no process has an open call, and before all know that."""
    meet = bounded_shutdown.meet
    bounded_shutdown.meet = lambda stage, limit: kill_oneself() if stage == READY else meet(stage, limit)
    shutdown(30)


def die_in_the_last_count() -> None:
    """Die when all others are in torch's count of open calls, or are about to enter it, and no call watches them."""

    def die(limit: TimeLimit) -> None:
        await_true(lambda: rpc.rpc_sync(here().names[0], watches_nobody), otherwise="the first role watches this one")
        kill_oneself()

    bounded_shutdown.count_together = die
    shutdown(30)


def watches_nobody() -> bool:
    return all(call.done() for call in here().watches)


def stop_in_the_last_count() -> None:
    bounded_shutdown.count_together = lambda limit: os.kill(os.getpid(), signal.SIGSTOP)
    shutdown(30)


def threads_left() -> list[str]:
    """The threads that a shutdown has left behind."""
    return [repr(each) for each in threading.enumerate() if isinstance(each, WorkThread)]


def threads_left_by_a_count_without_end(timeout: float) -> list[str]:
    bounded_shutdown._count = lambda *_: wait_busily()
    assert end(timeout).error == "PeerLost"
    return threads_left()


def forget_the_package() -> None:
    """Be a process in which this project is not installed."""
    sys.modules["reference.world.bounded_shutdown"] = None  # type: ignore[assignment]


def call_forever(peer: str) -> None:
    """Make a call without a limit that is never answered."""
    rpc.rpc_async(peer, plays.never, timeout=0)


def call_what_blocks(peer: str, function: Callable[..., Any] = wait_busily, *args: Any) -> Answer:
    """Give up a call that its callee goes on executing."""
    return answer(lambda: rpc.rpc_sync(peer, function, args, timeout=0.2))


def send_and_get_answers(peer: str, count: int) -> tuple[Answer, list[Any]]:
    """Return (the shutdown, the answers that have come when it has ended)."""
    calls = [rpc.rpc_async(peer, plays.work, (number,)) for number in range(count)]
    ended = end()
    return ended, [answer(call.value).value for call in calls]


def end_and_open_gate_later() -> Answer:
    """Let work under way end only when all have come to the shutdown and could have left it long ago."""
    original = bounded_shutdown.release_rrefs

    def release(limit: TimeLimit) -> None:
        threading.Timer(0.3, plays.open_gate).start()
        original(limit)

    with patch.object(bounded_shutdown, "release_rrefs", release):
        return end()


def open_calls_while_watching(peer: str) -> tuple[int, int]:
    """The open calls that this first role says that it has: of its program, and those that watch its peer.

    Every stage begins to watch.
    """
    call = rpc.rpc_async(peer, plays.work, (0,))
    for _ in range(2):
        here().watch()
    try:
        return here().look(), len(here().watches)
    finally:
        rpc.rpc_sync(peer, plays.open_gate)
        call.wait()


def play(peer: str = "", timeout: float = 20) -> Answer:
    """Play a rank of torchrun: make a call that ends only with ``peer``, if there is one, and shut down."""

    def act() -> None:
        with losses_named():
            if peer:
                rpc.rpc_sync(peer, wait_busily)
        shutdown(timeout)

    return answer(act)


def end_and_fail() -> Answer:
    """Play a rank of torchrun whose function ends RPC itself, and fails then."""

    def act() -> None:
        with losses_named():
            shutdown(graceful=False)
            raise RuntimeError("today")

    return answer(act)


def is_up() -> bool:
    return _is_current_rpc_agent_set()


def await_no_rpc() -> Answer:
    """Wait until RPC has ended here, which an earlier shutdown could not wait for."""
    return answer(await_true, lambda: not is_up())


def end_heard_by_who_fails() -> Answer:
    def hear(*_: object) -> None:
        raise ArithmeticError("today")

    with patch.object(moments, "tell", hear):
        return end()


def barrier_outlives_the_start() -> bool:
    """Whether this process keeps its barrier when torch, late in its start, stores the names of all a second time."""
    before = here()
    rpc.api._init_rpc_states(_get_current_rpc_agent())
    return here() is before
