"""Functions of roles in the tests of the shutdown: torch's own, called by the role, with work in flight or without.

The leader of a shutdown is the role with the smallest name, to which every other role reports that it is there.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed.rpc as rpc
from torch.distributed.rpc import api
from torch.futures import Future

from reference.trace.progress import log_step
from reference.world.rpc_agent import LOCAL_OPTIONS, start_agent
from tests.support import roles_rrefs
from tests.support.answers import Answer, answer
from tests.support.roles_plain import Unlucky, await_true, kill_oneself

_gate = threading.Event()
_entered = threading.Semaphore(0)
_left = threading.Semaphore(0)
_executed: list[int] = []
_futures: list[Future[Any]] = []


def shutdown(**arguments: Any) -> Answer:
    """Call torch's ``rpc.shutdown``, which the hook may have replaced."""
    return answer(lambda: rpc.shutdown(**arguments))


def await_followers(*names: str) -> None:
    """Wait until these have come to the leader's shutdown, each at most 10 s. Executed on the leader.

    Their limits may be short, so this looks for what stays so: that they have reported, and have their answers.
    """
    _await_each(names, lambda name: name in _reported() and rpc.rpc_sync(name, has_its_answer))


def _await_each(names: tuple[str, ...], is_there: Callable[[str], bool]) -> None:
    for name in names:
        await_true(partial(is_there, name), otherwise=f"{name} is not in a shutdown")


def _reported() -> set[str]:
    """Return who has reported to this leader for a shutdown that it has not begun."""
    with api._all_gather_dict_lock:
        return {name for states in api._all_gather_sequence_id_to_states.values() for name in states.gathered_objects}


def has_its_answer() -> bool:
    """Return whether a follower that has reported knows that it is counted. Executed there."""
    return all(each.name != "rpc_sync" for each in _main_stack())


def _main_stack() -> traceback.StackSummary:
    return traceback.extract_stack(sys._current_frames().get(threading.main_thread().ident or 0))


def die_when_they_wait(*names: str) -> None:
    await_followers(*names)
    kill_oneself()


def shutdown_when_they_have_begun(*names: str, **arguments: Any) -> Answer:
    """Begin the leader's shutdown right after the others', whose waits have limits."""
    _await_each(names, lambda name: rpc.rpc_sync(name, has_begun_a_shutdown))
    return shutdown(**arguments)


def has_begun_a_shutdown() -> bool:
    """Return whether this process's main thread executes torch's shutdown, whatever it waits for. Executed there."""
    return any((each.name, each.filename) == ("shutdown", api.__file__) for each in _main_stack())


def raise_in_a_shutdown_first() -> None:
    """Shut down in a ``finally``, as published, which hides the error as long as it waits."""
    try:
        raise Unlucky("today")
    finally:
        rpc.shutdown()


def step() -> None:
    """Report a step, a moment for the plan's faults."""
    logging.getLogger("reference").setLevel(logging.INFO)
    log_step(1, 1, 0.0)


# Work that is in flight.


def work(number: int) -> int:
    """Wait until the gate is open, at most 20 s."""
    _entered.release()
    assert _gate.wait(20)
    _executed.append(number)
    _left.release()
    return number


def work_and_call(number: int, peer: str) -> int:
    """Wait likewise, and then make another call."""
    work(number)
    value: int = rpc.rpc_sync(peer, note, (number,))
    return value


def note(number: int) -> int:
    _executed.append(number)
    return number


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def never() -> Future[None]:
    _entered.release()
    return Future()


def executed() -> list[int]:
    return sorted(_executed)


def await_entered(count: int) -> bool:
    return all(_entered.acquire(timeout=10) for _ in range(count))


def open_gate() -> None:
    _gate.set()


def finish(count: int) -> list[int]:
    """Let so many entered calls go on, and wait for the end of each."""
    open_gate()
    assert all(_left.acquire(timeout=10) for _ in range(count))
    return executed()


def send_nested_and_shutdown(peer: str, then: str, count: int) -> Answer:
    for number in range(count):
        rpc.rpc_async(peer, work_and_call, (number, then))
    return shutdown()


def open_gate_when_they_wait(*names: str) -> tuple[list[int], Answer]:
    """Return (the work executed when all others already waited, the shutdown). Executed on the leader."""
    await_followers(*names)
    before = executed()
    open_gate()
    return before, shutdown()


def keep(peer: str, count: int) -> None:
    for number in range(count):
        _futures.append(rpc.rpc_async(peer, work, (number,)))


def kept() -> list[Answer | None]:
    """Return how the calls that `keep` began have ended; None: not yet."""
    return [answer(each.value) if each.done() else None for each in _futures]


def create_and_drop(owner: str, count: int) -> None:
    """Drop RRefs before their owner can have confirmed them."""
    for number in range(count):
        rpc.remote(owner, roles_rrefs.make, (number,))


# Start RPC once more, in the same process.


def start(name: str, rank: int, size: int, place: str) -> Answer:
    options = {**LOCAL_OPTIONS, "rpc_timeout": 60}
    return answer(lambda: start_agent(name, rank, size, f"file://{place}", options))


def ask(peer: str) -> Answer:
    return answer(lambda: rpc.rpc_sync(peer, torch.add, (torch.ones(1), 1), timeout=10).item())
