"""What a graceful shutdown does in all processes together: all come, RRefs are deleted, and no call is open any more.

These are the steps of torch's own graceful shutdown, each within a limit.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch.distributed.rpc as rpc
from torch._C._distributed_rpc import _delete_all_user_and_unforked_owner_rrefs, _get_current_rpc_agent

from reference.outcome import PeerLost
from reference.system.interrupts import SHORTEST, TimeLimit
from reference.system.processes import WorkThread
from reference.world import shutdown_barrier
from reference.world.shutdown_barrier import PeerState, ShutdownBarrier

# What each process says in the store: it has had no open call; it has heard that of all; it needs the store no more.
IDLE, READY, LEFT = "reference_idle", "reference_ready", "reference_left"
# Seconds between two looks at the number of open calls, or at the store.
PAUSE = 0.005


class LastCount:
    """Begins when it is made. It has ended once no process has an open call, or after `give_up`."""

    def __init__(self, agent: Any, barrier: ShutdownBarrier, limit: TimeLimit) -> None:
        self.agent, self.store = agent, agent.store
        self.barrier, self.limit = barrier, limit
        self.given_up = threading.Event()
        self.thread = WorkThread(self._count)

    def ends_within(self, seconds: float) -> bool:
        """Wait for the end of the count. Raises RuntimeError: torch's count has failed."""
        return self.thread.ends_within(seconds)

    def give_up(self) -> None:
        """End the thread, before RPC ends here. One that is in torch's count ends with RPC or with the limit.

        Python's end waits for such a thread.
        """
        self.given_up.set()
        with suppress(RuntimeError):
            self.store.set_timeout(timedelta(seconds=SHORTEST))
        self.thread.join(self.limit.left() / 4)
        if self.thread.is_alive():
            atexit.register(_wait_at_exit, self.thread, self.limit)

    def _count(self) -> None:
        if self._comes(self._no_open_call) and self._all_say(IDLE) and self._all_say(READY):
            self.store.set_timeout(timedelta(seconds=self.limit.left_to_wait()))
            self.agent.join(shutdown=True, timeout=self.limit.left_to_wait())
            with suppress(RuntimeError):  # all have been counted: nothing can fail any more
                self._leave()

    def _comes(self, condition: Callable[[], bool]) -> bool:
        """Wait until ``condition`` holds, or until `give_up`. Return whether it holds."""
        while not self.given_up.is_set():
            if condition():
                return True
            self.given_up.wait(PAUSE)
        return False

    def _no_open_call(self) -> bool:
        """Look at the open calls. The least number is the program's: questions to others are open for a moment only."""
        now = int(self.agent.get_debug_info()["agent.client_active_calls"])
        before = self.barrier.open_calls
        self.barrier.open_calls = now if before is None else min(now, before)
        return now == 0

    def _say(self, what: str) -> None:
        if self.store.add(what, 1) == len(self.barrier.names):
            self.store.set(f"{what}_all", "1")

    def _all_say(self, what: str) -> bool:
        self._say(what)
        return self._comes(lambda: bool(self.store.check([f"{what}_all"])))

    def _leave(self) -> None:
        """Say it. The first rank, whose process may hold the store, stays until nobody needs the store any more."""
        self._say(LEFT)
        if self.agent.get_worker_info().name == self.barrier.names[0]:
            self._comes(lambda: self.limit.over() or bool(self.store.check([f"{LEFT}_all"])))


def _wait_at_exit(thread: threading.Thread, limit: TimeLimit) -> None:
    thread.join(limit.left())


# Seconds after which a wait for the last calls looks for dead processes, for the first time; then after twice as many.
FIRST_LOOK = 0.5
# Seconds in which that wait ends if the process that is gone has only left before this one, as it may.
GRACE = 2.0


def shut_down_together(limit: TimeLimit) -> None:
    """Come to the common shutdown, and wait until no process needs another one any more.

    Raises:
        PeerLost: a process is gone, or does not answer, or does not come to the shutdown, or calls are still open at
            the end of the limit.
    """
    shutdown_barrier.wait_for_all_ranks(limit)
    # It waits twice: until RRefs of this process are confirmed, and until those of others are deleted.
    _delete_all_user_and_unforked_owner_rrefs(timeout=timedelta(seconds=limit.left_to_wait() / 3))
    count = LastCount(_get_current_rpc_agent(), shutdown_barrier.here(), limit)
    try:
        _await(count, limit)
    except BaseException as error:
        count.give_up()
        if isinstance(error, RuntimeError) and not isinstance(error, PeerLost):
            raise PeerLost(_give_up(limit, shutdown_barrier.first_line(error))) from error
        raise


def _await(count: LastCount, limit: TimeLimit) -> None:
    pause = FIRST_LOOK
    while not count.ends_within(min(pause, limit.left_to_wait())):
        if limit.over():
            count.give_up()
            raise PeerLost(_give_up(limit, "calls are open"))
        if (lost := _lost(limit)) and not count.ends_within(min(GRACE, limit.left_to_wait())):
            raise PeerLost(lost)
        pause *= 2


def _lost(limit: TimeLimit) -> str | None:
    """Look for a process that is gone: the first rank at all, and tells them; every other one at the first."""
    barrier, own = shutdown_barrier.here(), rpc.get_worker_info().name
    first = own == barrier.names[0]
    asked = barrier.names if first else barrier.names[:1]
    dead = [
        each
        for each in shutdown_barrier.ask(shutdown_barrier.state, asked, own, min(1.0, limit.left_to_wait()))
        if each.gone
    ]
    text = "; ".join(str(each) for each in dead)
    if first and text:
        shutdown_barrier.inform(text, limit.left() / 2)
    return barrier.news or text


def _give_up(limit: TimeLimit, otherwise: str) -> str:
    """Say why not all calls ended, and tell the others: a process does not answer, or waits for answers."""
    barrier, own = shutdown_barrier.here(), shutdown_barrier.state()
    states = [own, *shutdown_barrier.ask(shutdown_barrier.state, barrier.names, own.name, limit.left() / 2)]
    if barrier.news and any(each.gone for each in states):
        return barrier.news  # others that have given up tell why before they are gone
    silent = "; ".join(str(each) for each in states if each.error)
    why = f"timed out after {limit.seconds:g} s" if limit.over() else "failed"
    why = f"shutdown {why}: {silent or _open_calls(states) or otherwise}"
    shutdown_barrier.inform(barrier.news or f"{own.name}'s {why}", limit.left() / 2)
    return f"the {why}"


def _open_calls(states: Sequence[PeerState]) -> str:
    return "; ".join(
        f"{each.name} waits for the answer{'s' * (each.open_calls > 1)} of {each.open_calls} "
        f"call{'s' * (each.open_calls > 1)}"
        for each in states
        if each.open_calls
    )
