"""Calls of asynchronous workers: count each once, even if it comes twice, keep their order, and name the silent."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from reference.rpc.liveness import Liveness, silence
from reference.training.worker_order import PULL, PUSH, Event


class MissingWorker(TimeoutError):
    """The server gave up on workers that sent nothing for the case's timeout. Names them."""


class WorkerCalls:
    """Counts the calls of all workers, in several RPC threads; `wait_for_all` runs in the role's own thread."""

    def __init__(self, workers: Sequence[str], steps: int, timeout: float) -> None:
        """``steps``: the number of gradients that each worker pushes; ``timeout``: seconds of silence."""
        self.workers = list(workers)
        self.steps = steps
        self.order: list[Event] = []
        self.pushed = dict.fromkeys(workers, 0)
        self.liveness = Liveness(workers, timeout)
        self._last = {(kind, worker): 0 for kind in (PULL, PUSH) for worker in workers}
        self._changed = threading.Condition()

    def count(self, kind: int, worker: str, number: int) -> bool:
        """Count a worker's ``number``-th call of this kind, from 1; False if it, or a later one, was counted before.

        Raises:
            ValueError: the worker is unknown.
        """
        with self._changed:
            rank = self.workers.index(worker)
            self.liveness.heartbeat(worker)
            if number <= self._last[kind, worker]:
                return False
            self._last[kind, worker] = number
            self.order.append((kind, rank))
            self.pushed[worker] += kind == PUSH
            self._changed.notify_all()
            return True

    def wait_for_all(self) -> None:
        """Return once every worker has pushed all its gradients.

        Raises:
            MissingWorker: a worker that has more to push was silent for too long.
        """
        with self._changed:
            while left := self._seconds_left(time.monotonic()):
                self._changed.wait(left)

    def _seconds_left(self, now: float) -> float:
        """Seconds until the next call must arrive; 0 if no further call is expected."""
        busy = [name for name, pushed in self.pushed.items() if pushed < self.steps]
        if silent := self.liveness.silent(busy, now):
            told = [f"{name} (sent {self.pushed[name]} of {self.steps})" for name in silent]
            raise MissingWorker(silence(self.liveness.timeout, told))
        return min((self.liveness.last[name] + self.liveness.timeout - now for name in busy), default=0.0)
