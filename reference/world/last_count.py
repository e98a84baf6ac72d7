"""The last count of open calls in all processes together, by a thread that ends when it is told to.

torch's own count, ``agent.join``, waits inside C++ until no process has an open call. It cannot be ended from outside,
and a thread that returns from C++ while Python ends the process aborts that process. Therefore a process enters it only
when all have said, in the store by which they met, that they have had no open call, and then that they are still there.
After that it takes milliseconds.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from reference.system.time_limit import SHORTEST, TimeLimit
from reference.system.work_thread import WorkThread
from reference.world.shutdown_barrier import ShutdownBarrier

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
